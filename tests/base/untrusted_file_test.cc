// Tests of opening untrusted files: never blocks, and accepts only regular files.
#include "base/untrusted_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/error.h"
#include "base/mapped_file.h"
#include "support/temporary_folder.h"

namespace veery {
namespace {

using test::TemporaryFolder;

std::string message_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string write(const TemporaryFolder& folder, const std::string& name, const std::string& text) {
  folder.write(name, text);
  return folder.file(name);
}

TEST(UntrustedFile, RejectsPathsThatAreNotRegularFiles) {
  const TemporaryFolder folder;
  const std::string pipe = folder.file("pipe"), socket = folder.file("socket");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const Descriptor server(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  ASSERT_LT(socket.size(), sizeof address.sun_path);
  socket.copy(address.sun_path, socket.size());
  ASSERT_EQ(::bind(server.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const std::pair<std::string, std::string> cases[] = {
      {pipe, "is a named pipe, expected a file"},
      {socket, "is a socket, expected a file"},
      {"/dev/zero", "is a device, expected a file"},
      {folder.file("."), "is a folder, expected a file"},
      {folder.file("none"), "cannot be opened: No such file"},
      {write(folder, "file", "x") + "/y", "cannot be opened: Not a directory"},
      {folder.file(std::string(300, 'a')), "cannot be opened: File name too long"},
  };
  for (const auto& [path, expected] : cases) {
    const std::string message = message_of([&, &path = path] { MappedFile{path}; });
    EXPECT_NE(message.find(expected), std::string::npos) << message;
    EXPECT_TRUE(message.starts_with(path + ": ")) << message;
  }
}

TEST(UntrustedFile, LimitErrorsNameBothSizes) {
  const TemporaryFolder folder;
  const std::string path = write(folder, "large", "");
  // A sparse file takes no space on disk.
  std::filesystem::resize_file(path, kConfigFile.most_bytes + 1);
  EXPECT_EQ(message_of([&] { MappedFile(path, kConfigFile); }),
            path + ": has 16000001 bytes, expected at most 16000000 of a configuration");
  EXPECT_NE(message_of([&] { read_text(path, kTemplateFile); }).find("more than 4000000 bytes"),
            std::string::npos);
  EXPECT_NE(message_of([&] { read_text("/dev/zero", kTemplateFile); }).find("more than 4000000"),
            std::string::npos);
}

TEST(UntrustedFile, ReadsTextFromPipes) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_text(write(folder, "file", "text"), kTextFile), "text");
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  const Descriptor out(ends[0]);
  std::thread writer([&] {
    const Descriptor in(ends[1]);
    for (const char* part : {"one ", "two"}) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (::write(in.get(), part, std::char_traits<char>::length(part)) < 0) return;
    }
  });
  EXPECT_EQ(read_text("/dev/fd/" + std::to_string(ends[0]), kTextFile), "one two");
  writer.join();
}

TEST(UntrustedFile, RejectsANamedPipeWithoutWriter) {
  const TemporaryFolder folder;
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(message_of([&] { read_text(pipe, kTextFile); }),
            pipe + ": is a named pipe that no program writes to");
  std::thread writer([&] { std::ofstream(pipe) << "late"; });
  EXPECT_EQ(read_text(pipe, kTextFile), "late");
  writer.join();
}

TEST(UntrustedFile, DropsTheByteOrderMark) {
  constexpr FileKind kBytes{"bytes", kMB, false};
  const TemporaryFolder folder;
  write(folder, "marked", "\xEF\xBB\xBFtext");
  write(folder, "wide", std::string("\xFF\xFEt\0", 4));
  EXPECT_EQ(read_text(folder.file("marked"), kTextFile), "text");
  EXPECT_EQ(read_text(folder.file("marked"), kBytes), "\xEF\xBB\xBFtext");
  EXPECT_EQ(message_of([&] { read_text(folder.file("wide"), kTextFile); }),
            folder.file("wide") + ": is text in UTF-16, expected UTF-8");
  EXPECT_EQ(read_text(folder.file("wide"), kBytes).size(), 4U);
}

TEST(UntrustedFile, ListsFoldersInOrder) {
  const TemporaryFolder folder;
  write(folder, "b", "");
  write(folder, "a", "");
  EXPECT_EQ(list_folder(folder.file("")), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(path_exists(folder.file("a")));
  EXPECT_FALSE(path_exists(folder.file("c")));
  EXPECT_FALSE(path_exists(folder.file("a/b")));
  EXPECT_TRUE(is_folder(folder.file(".")));
  EXPECT_FALSE(is_folder(folder.file("a")));
  EXPECT_NE(message_of([&] { path_exists(folder.file(std::string(300, 'x'))); }).find("too long"),
            std::string::npos);
}

}  // namespace
}  // namespace veery
