// Tests of files that change while mapped: reads succeed, and results computed from them are
// rejected.
#include "base/mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csetjmp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>
#include <vector>

#include "support/temporary_folder.h"

namespace veery {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBytes = size_t{1} << 20;

class MappedFiles : public ::testing::Test {
 protected:
  std::string make(const std::string& name, size_t bytes = kBytes, char value = 1) const {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path, std::ios::binary) << std::string(bytes, value);
    return path;
  }
  static void shrink(const std::string& path, size_t bytes) { fs::resize_file(path, bytes); }

  test::TemporaryFolder folder_;
};

size_t sum(std::span<const std::byte> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), size_t{0},
                         [](size_t all, std::byte b) { return all + std::to_integer<size_t>(b); });
}

std::string refusal(const MappedFile& file) {
  try {
    file.check_unchanged();
  } catch (const FileChanged& error) {
    return error.what();
  }
  return "";
}

TEST_F(MappedFiles, ShrunkFileReadsAsZerosAndIsReported) {
  const std::string path = make("a");
  const MappedFile file(path);
  EXPECT_TRUE(file.is_unchanged());
  EXPECT_EQ(sum(file.bytes()), kBytes);
  shrink(path, kBytes / 4);
  EXPECT_EQ(sum(file.bytes()), kBytes / 4);
  EXPECT_EQ(refusal(file),
            path + ": shrank while it was in use: found 262144 bytes, expected 1048576");
}

TEST_F(MappedFiles, StaysInvalidAfterTheFileIsRestored) {
  const std::string path = make("a");
  const MappedFile file(path);
  shrink(path, 0);
  EXPECT_EQ(sum(file.bytes()), 0U);
  make("a");
  EXPECT_FALSE(file.is_unchanged());
  EXPECT_NE(refusal(file), "");
  EXPECT_TRUE(MappedFile(path).is_unchanged());
}

TEST_F(MappedFiles, SeveralThreadsReadTheSameMissingPages) {
  const std::string path = make("a");
  const MappedFile file(path);
  shrink(path, 5000);
  std::vector<size_t> sums(4);
  std::vector<std::thread> threads;
  for (size_t& to : sums) threads.emplace_back([&] { to = sum(file.bytes()); });
  for (std::thread& thread : threads) thread.join();
  for (const size_t found : sums) EXPECT_EQ(found, 5000U);
  EXPECT_FALSE(file.is_unchanged());
}

TEST_F(MappedFiles, ThreadThatBlocksSigbusCanMapAndRead) {
  const std::string path = make("a");
  std::thread([&] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    const MappedFile file(path);
    shrink(path, 0);
    EXPECT_EQ(sum(file.bytes()), 0U);
  }).join();
}

TEST_F(MappedFiles, RejectsContentsOverwrittenInPlace) {
  for (const size_t bytes : {kBytes, kBytes + 1}) {
    const std::string path = make("a");
    const MappedFile file(path);
    // Let the file system's clock advance.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::fstream(path, std::ios::binary | std::ios::in | std::ios::out) << std::string(bytes, 2);
    EXPECT_NE(refusal(file).find("was overwritten while it was in use"), std::string::npos)
        << refusal(file);
  }
}

TEST_F(MappedFiles, FileReplacedByRenameOrRemovedStaysValid) {
  const std::string path = make("a");
  const MappedFile file(path);
  fs::rename(make("b", 100, 2), path);
  EXPECT_EQ(sum(file.bytes()), kBytes);
  EXPECT_TRUE(file.is_unchanged());
  fs::remove(path);
  EXPECT_TRUE(file.is_unchanged());
}

TEST_F(MappedFiles, FilesReadIntoMemoryIgnoreLaterChanges) {
  const std::string path = make("a", 5000);
  const MappedFile file(path, kConfigFile);
  shrink(path, 0);
  EXPECT_EQ(sum(file.bytes()), 5000U);
  EXPECT_TRUE(file.is_unchanged());
  file.release(file.bytes());
  EXPECT_EQ(sum(file.bytes()), 5000U);
}

TEST_F(MappedFiles, FileChangedReplacesErrorsOfReaders) {
  const std::string path = make("a");
  const MappedFile file(path);
  const auto fail = [] { throw Error(ErrorKind::kFormat, "no magic"); };
  EXPECT_THROW(file.checked(fail), Error);
  EXPECT_EQ(file.checked([&] { return sum(file.bytes()); }), kBytes);
  shrink(path, 0);
  EXPECT_THROW(file.checked(fail), FileChanged);
  EXPECT_THROW(file.checked([&] { return sum(file.bytes()); }), FileChanged);
}

bool has_handler() {
  struct sigaction now {};
  sigaction(SIGBUS, nullptr, &now);
  return (now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_DFL;
}

// Removes the SIGBUS handler that sanitizers install.
class WithoutHandler {
 public:
  WithoutHandler() { sigaction(SIGBUS, nullptr, &before_), std::signal(SIGBUS, SIG_DFL); }
  ~WithoutHandler() { sigaction(SIGBUS, &before_, nullptr); }

 private:
  struct sigaction before_ {};
};

TEST_F(MappedFiles, HandlerIsInstalledWhileAFileIsMapped) {
  const WithoutHandler none;
  {
    const MappedFile one(make("a")), read(make("c"), kConfigFile);
    EXPECT_TRUE(has_handler());
    { const MappedFile other(make("b")); }
    EXPECT_TRUE(has_handler());
  }
  EXPECT_FALSE(has_handler());
  const MappedFile read(make("c"), kConfigFile);
  EXPECT_FALSE(has_handler());
}

sigjmp_buf after_fault;
volatile sig_atomic_t faults = 0;

extern "C" void host_handler(int, siginfo_t*, void*) {
  faults = faults + 1;
  siglongjmp(after_fault, 1);
}

TEST_F(MappedFiles, FaultsElsewhereGoToTheHostHandler) {
  const WithoutHandler none;
  struct sigaction action {};
  action.sa_sigaction = host_handler;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
  const std::string path = make("a"), theirs = make("b");
  const MappedFile file(path);
  const int fd = ::open(theirs.c_str(), O_RDONLY);
  const auto* mapped =
      static_cast<const volatile char*>(::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE, fd, 0));
  ::close(fd);
  shrink(theirs, 0);
  shrink(path, 0);
  faults = 0;
  if (sigsetjmp(after_fault, 1) == 0) static_cast<void>(*mapped);
  EXPECT_EQ(faults, 1);
  EXPECT_EQ(sum(file.bytes()), 0U);
  EXPECT_EQ(faults, 1);
  ::munmap(const_cast<char*>(mapped), kBytes);
}

TEST_F(MappedFiles, FaultElsewhereWithoutAHandlerKillsTheProcess) {
  for (const bool sent : {false, true}) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::signal(SIGBUS, SIG_DFL);
      const MappedFile file(make("a"));
      if (sent) ::raise(SIGBUS);
      const std::string theirs = make("b");
      const int fd = ::open(theirs.c_str(), O_RDONLY);
      const auto* mapped =
          static_cast<const volatile char*>(::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE, fd, 0));
      shrink(theirs, 0);
      static_cast<void>(*mapped);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS) << status;
  }
}

}  // namespace
}  // namespace veery
