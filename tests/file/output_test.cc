// Tests of where files and folders may be written, depending on what exists there.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "base/error.h"
#include "file/output/pending_file.h"
#include "file/output/pending_folder.h"
#include "support/temporary_folder.h"

namespace veery {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void write(const std::string& path, std::string_view text, const OutputRules& rules = {}) {
  PendingFile file(path, rules);
  file.write(text.data(), text.size());
  file.commit();
}

void write_folder(const std::string& path) {
  PendingFolder folder(path);
  folder.write("a", "text");
  folder.commit();
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

#define EXPECT_REFUSED(act, part) \
  EXPECT_NE(refusal([&] { act; }).find(part), std::string::npos) << refusal([&] { act; })

TEST(Output, NeverReplacesAnythingButRegularFiles) {
  const TemporaryFolder folder;
  const std::string fifo = folder.file("fifo"), bound = folder.file("socket");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  fs::create_directory(folder.file("folder"));
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, bound.c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  fs::create_symlink("/dev/null", folder.file("link"));
  EXPECT_REFUSED(write(fifo, "x"), "fifo: is a named pipe");
  EXPECT_REFUSED(write(bound, "x"), "socket: is a socket");
  EXPECT_REFUSED(write(folder.file("folder"), "x"), "folder: is a folder");
  EXPECT_REFUSED(write(folder.file("link"), "x"), "link: is a device");
  EXPECT_REFUSED(write(folder.file("new/"), "x"), "is the name of a folder");
  EXPECT_REFUSED(write("", "x"), "is empty");
  ::close(socket);
  EXPECT_TRUE(fs::is_fifo(fifo));
  EXPECT_TRUE(fs::is_symlink(folder.file("link")));
  EXPECT_EQ(folder.entries(), 4U);
}

TEST(Output, KeepsLinksAndReplacesTheirTargets) {
  const TemporaryFolder folder;
  fs::create_directory(folder.file("far"));
  folder.write("far/old", "old");
  fs::create_symlink("far/old", folder.file("to_old"));
  fs::create_symlink("to_old", folder.file("twice"));
  fs::create_symlink("far/new", folder.file("to_nothing"));
  fs::create_symlink("far/folder", folder.file("to_no_folder"));
  fs::create_symlink("around", folder.file("around"));
  write(folder.file("twice"), "new");
  write(folder.file("to_nothing"), "made");
  write_folder(folder.file("to_no_folder/"));
  EXPECT_REFUSED(write(folder.file("around"), "x"), "around: cannot be created");
  for (const char* name : {"to_old", "twice", "to_nothing", "to_no_folder"})
    EXPECT_TRUE(fs::is_symlink(folder.file(name))) << name;
  EXPECT_EQ(content(folder.file("far/old")), "new");
  EXPECT_EQ(content(folder.file("far/new")), "made");
  EXPECT_EQ(content(folder.file("far/folder/a")), "text");
  EXPECT_EQ(folder.entries(), 6U);
}

TEST(Output, ReplacesFilesOnlyIfTheRulesAllowIt) {
  const TemporaryFolder folder;
  folder.write("old", "old");
  fs::permissions(folder.file("old"), fs::perms::owner_read | fs::perms::owner_write);
  const OutputRules keep{Existing::kRefuse, {}};
  EXPECT_REFUSED(write(folder.file("old"), "new", keep), "exists already");
  write(folder.file("fresh"), "fresh", keep);
  {
    PendingFile late(folder.file("late"), keep);
    folder.write("late", "of another");
    EXPECT_REFUSED(late.commit(), "cannot be put in place");
  }
  EXPECT_EQ(content(folder.file("late")), "of another");
  write(folder.file("old"), "new");
  EXPECT_EQ(content(folder.file("old")), "new");
  EXPECT_EQ(fs::status(folder.file("old")).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(folder.entries(), 3U);
}

TEST(Output, NeverReplacesInputsUnderAnyName) {
  const TemporaryFolder folder;
  folder.write("in", "in");
  fs::create_hard_link(folder.file("in"), folder.file("hard"));
  fs::create_symlink("in", folder.file("soft"));
  fs::create_directory(folder.file("model"));
  folder.write("model/config.json", "{}");
  const OutputRules rules{Existing::kReplace, {folder.file("in"), folder.file("model")}};
  for (const char* name : {"in", "hard", "soft", "model/config.json"})
    EXPECT_REFUSED(write(folder.file(name), "x", rules), "is also the input");
  write(folder.file("model/new"), "x", rules);
  EXPECT_EQ(content(folder.file("in")), "in");
}

TEST(Output, FoldersNeverReplaceAnything) {
  const TemporaryFolder folder;
  fs::create_directory(folder.file("empty"));
  folder.write("file", "x");
  EXPECT_REFUSED(write_folder(folder.file("empty")), "exists already and is a folder");
  EXPECT_REFUSED(write_folder(folder.file("file")), "exists already and is a file");
  {
    PendingFolder late(folder.file("late"));
    fs::create_directory(folder.file("late"));
    EXPECT_REFUSED(late.commit(), "exists already");
  }
  EXPECT_EQ(folder.entries(), 3U);
}

TEST(Output, DiscardRemovesAllPendingOutputs) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();  // in a child process, because discarding is permanent
  if (child == 0) {
    const PendingFile file(folder.file("file"));
    const PendingFolder whole(folder.file("folder"));
    whole.write("a", "text");
    PendingFile late(folder.file("late"));
    const bool there = folder.entries() == 3;
    discard_pending_outputs();
    const bool gone = folder.entries() == 0;
    const bool closed =
        refusal([&] { late.commit(); }).find("cannot be put in place") != std::string::npos &&
        refusal([&] { const PendingFile more(folder.file("x")); }).find("shutting down") !=
            std::string::npos;
    ::_exit(there && gone && closed ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(folder.entries(), 0U);
}

}  // namespace
}  // namespace veery
