// The folder of the prefix cache on disk: its size limit, its index, files of other programs.
#include "schedule/caches/prefix_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/temporary_folder.h"

namespace veery {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> bytes_of(size_t count) { return std::vector<std::byte>(count); }

class Folder : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return path_ + "/" + name + ".prefix"; }
  // Changes of the index as text: "+added -removed ".
  static std::string changes(PrefixFolder& folder) {
    std::string text;
    for (const PrefixFolder::Change& change : folder.take_changes())
      text += (change.added ? "+" : "-") + change.name + " ";
    return text;
  }
  // Refreshes until the index has the expected changes: listings are limited in time.
  static void expect_changes(PrefixFolder& folder, const std::string& expected) {
    std::string found;
    for (int i = 0; i < 3000 && found.size() < expected.size(); ++i) {
      folder.refresh();
      found += changes(folder);
      ::usleep(1000);
    }
    EXPECT_EQ(found, expected);
  }

  test::TemporaryFolder folder_;
  std::string path_ = folder_.file("cache");
};

TEST_F(Folder, IsMadeForItsUserAloneWhateverItsPathEndsWith) {
  for (const char* name : {"plain", "slash/", "slashes///", "new/parent/"}) {
    const std::string path = folder_.file(name);
    check_prefix_folder(path);
    struct stat status {};
    ASSERT_EQ(::stat(path.c_str(), &status), 0) << path;
    EXPECT_EQ(status.st_mode & 0777, 0700U) << path;
  }
}

TEST_F(Folder, TheLeastRecentlyUsedFilesGo) {
  PrefixFolder folder(path_ + "/", 30);
  for (const char* name : {"a", "b", "c"}) EXPECT_TRUE(folder.write(name, bytes_of(10)));
  EXPECT_EQ(changes(folder), "+a +b +c ");
  folder.touch("a");
  EXPECT_TRUE(folder.read("b", 10).has_value());
  EXPECT_TRUE(folder.write("d", bytes_of(10)));
  EXPECT_EQ(changes(folder), "-c +d ");
  EXPECT_TRUE(folder.write("a", bytes_of(20))) << "replaced by a larger one";
  EXPECT_FALSE(folder.write("e", bytes_of(31)));
  EXPECT_FALSE(folder.fits(31));
  uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(path_)) bytes += fs::file_size(entry);
  EXPECT_LE(bytes, 30U);
  EXPECT_EQ(folder.bytes_of("a"), 20U);
}

TEST_F(Folder, FilesOfOtherProgramsAreFound) {
  PrefixFolder folder(path_, 1000);
  EXPECT_TRUE(folder.write("own", bytes_of(10)));
  EXPECT_EQ(changes(folder), "+own ");
  std::ofstream(path("other")) << "12345";
  expect_changes(folder, "+other ");
  EXPECT_EQ(folder.bytes_of("other"), 5U);
  fs::remove(path("own"));
  expect_changes(folder, "-own ");
  EXPECT_FALSE(folder.has("own"));
  PrefixFolder second(path_, 1000);
  EXPECT_EQ(changes(second), "+other ");
}

// A file of a terabyte, all holes, costs no memory.
TEST_F(Folder, ReadsAreBoundedByTheExpectedSize) {
  PrefixFolder folder(path_, uint64_t{1} << 50);
  std::ofstream(path("large")) << "12345";
  std::error_code code;
  fs::resize_file(path("large"), uint64_t{1} << 40, code);
  if (code) GTEST_SKIP() << "the file system has no such files";
  expect_changes(folder, "+large ");
  EXPECT_FALSE(folder.read("large", 5).has_value());
  EXPECT_EQ(folder.read_head("large", 3)->size(), 3U);
  EXPECT_FALSE(folder.read("absent", 5).has_value());
}

}  // namespace
}  // namespace veery
