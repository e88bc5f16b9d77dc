// Tests of text, numbers and threads of the base layer.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/random.h"
#include "base/thread_pool.h"
#include "base/utf8.h"

namespace veery {
namespace {

TEST(Utf8, EveryCodePointRoundTrips) {
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text;
    append_utf8(text, code);
    const CodePoint point = next_code_point(text);
    ASSERT_TRUE(point.valid) << std::hex << static_cast<uint32_t>(code);
    ASSERT_EQ(point.value, code);
    ASSERT_EQ(static_cast<size_t>(point.length), text.size());
  }
}

TEST(Utf8, MalformedSequencesBecomeReplacementCharacters) {
  EXPECT_EQ(unix_lines("\r\na\r\n\rb\n\r\r\n\r"), "\na\n\rb\n\r\n\r");
  EXPECT_EQ(valid_utf8("a\xFFz"), "a\uFFFDz");
  EXPECT_EQ(valid_utf8("\xC0\x80"), "\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(valid_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(valid_utf8("\xE2\x82"), "\uFFFD");  // truncated: one for the longest valid prefix
  EXPECT_EQ(valid_utf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // above U+10FFFF
}

TEST(Utf8, FindsIncompleteSequencesAtTheEnd) {
  const std::string euro = "\xE2\x82\xAC";
  EXPECT_EQ(incomplete_utf8_suffix("x"), 0);
  EXPECT_EQ(incomplete_utf8_suffix(euro), 0);
  EXPECT_EQ(incomplete_utf8_suffix("x" + euro.substr(0, 1)), 1);
  EXPECT_EQ(incomplete_utf8_suffix("x" + euro.substr(0, 2)), 2);
  EXPECT_EQ(incomplete_utf8_suffix("\x80\x80"), 0);  // can never become valid
  EXPECT_EQ(incomplete_utf8_suffix("\xFF"), 0);
}

TEST(Json, KeepsMemberOrderAndRejectsDeepNesting) {
  EXPECT_EQ(dump_json(parse_json(R"({"b":1,"a":[2.5,null]})", "text")),
            R"({"b":1,"a":[2.5,null]})");
  EXPECT_THROW(parse_json("{", "text"), Error);
  EXPECT_THROW(parse_json(std::string(100000, '['), "text"), Error);
  EXPECT_NO_THROW(parse_json("[[1]]", "text", 2));
  EXPECT_THROW(parse_json("[[[1]]]", "text", 2), Error);
}

// Known answers of the Random123 library, kat_vectors.
TEST(Random, PhiloxMatchesKnownAnswers) {
  EXPECT_EQ(philox({{0, 0, 0, 0}}, 0, 0),
            (PhiloxBlock{{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({{ones, ones, ones, ones}}, ones, ones),
            (PhiloxBlock{{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}));
}

TEST(Random, StreamIsAFunctionOfSeedAndPosition) {
  Random a(5);
  for (int i = 0; i < 10; ++i) a.next();
  Random b(5, a.position());
  EXPECT_EQ(a.next(), b.next());
  EXPECT_NE(Random(5).next(), Random(6).next());
}

TEST(ThreadPool, EveryWorkerRunsEachJobOnce) {
  for (int size : {1, 2, 5}) {
    ThreadPool pool(size);
    for (int round = 0; round < 50; ++round) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(size));
      pool.run([&](int index) { ++runs[static_cast<size_t>(index)]; });
      for (const auto& count : runs) ASSERT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, BarrierSeparatesPhases) {
  ThreadPool pool(3);
  std::atomic<int> arrived{0};
  std::atomic<bool> early{false};
  pool.run([&](int) {
    for (int step = 1; step <= 200; ++step) {
      ++arrived;
      pool.barrier().wait();
      if (arrived < 3 * step) early = true;
      pool.barrier().wait();
    }
  });
  EXPECT_FALSE(early);
}

TEST(ThreadPool, SeveralThreadsTakeTurns) {
  ThreadPool pool(3);
  std::atomic<int> inside{0}, most{0}, done{0};
  std::vector<std::thread> users;
  for (int user = 0; user < 4; ++user)
    users.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        pool.run([&](int index) {
          if (index == 0) most = std::max<int>(most, ++inside);
          ++done;
          pool.barrier().wait();
          if (index == 0) --inside;
          pool.barrier().wait();
        });
        pool.parallel_for(
            50, 1, [&](int64_t begin, int64_t end) { done += static_cast<int>(end - begin); });
      }
    });
  for (std::thread& user : users) user.join();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(done, 4 * 100 * (3 + 50));
}

TEST(FairLock, IsRecursive) {
  FairLock lock;
  const std::lock_guard outer(lock);
  { const std::lock_guard inner(lock); }
  std::atomic<bool> entered{false};
  std::thread other([&] {
    const std::lock_guard own(lock);
    entered = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(entered) << "the outer lock is still held";
  lock.lock();
  lock.unlock();
  lock.unlock();
  other.join();
  lock.lock();
}

// A thread that locks again at once waits for those that came before.
TEST(FairLock, ThreadsGetItInTheOrderOfTheirCalls) {
  FairLock lock;
  std::vector<int> order;
  lock.lock();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const std::lock_guard own(lock);
      order.push_back(i);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // until it waits
  }
  lock.unlock();
  lock.lock();
  order.push_back(4);
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
}

// Waits are long enough for workers to sleep, at the barrier and at the end; also with more workers
// than cores.
TEST(ThreadPool, WakesSleepingWorkers) {
  for (int size : {2, 9}) {
    ThreadPool pool(size);
    std::atomic<int> arrived{0};
    for (int round = 1; round <= 20; ++round) {
      pool.run([&](int index) {
        const auto late = [&](int phase) {
          if (index == (round + phase) % size)
            std::this_thread::sleep_for(std::chrono::milliseconds(3));
        };
        late(0);
        ++arrived;
        pool.barrier().wait();
        EXPECT_EQ(arrived, size * round);
        pool.barrier().wait();
        late(1);
      });
    }
  }
}

TEST(SpinPolicy, ShortensSpinningUnderContention) {
  SpinPolicy policy;
  const int most = policy.spins();
  policy.slept(10, 10.0005);  // another worker took slightly longer
  EXPECT_EQ(policy.spins(), most);
  policy.slept(11, 11.003);  // the worker was descheduled
  const int least = policy.spins();
  EXPECT_LT(least, most / 100);
  policy.slept(11.02, 11.0201);
  EXPECT_EQ(policy.spins(), least);
  policy.slept(11.02, 11.023);
  policy.slept(11.06, 11.0601);  // 0.037 s without contention
  EXPECT_EQ(policy.spins(), least);
  policy.slept(11.1, 11.1001);
  EXPECT_EQ(policy.spins(), most);
}

// Returns the seconds of a job of 500 phases, the minimum of three runs.
double seconds_of_phases(int workers) {
  ThreadPool pool(workers);
  double least = 1e9;
  for (int i = 0; i < 3; ++i) {
    const double start = seconds_now();
    pool.run([&](int) {
      for (int phase = 0; phase < 500; ++phase) {
        volatile double x = 1;
        for (int k = 0; k < 20000 / workers; ++k) x = x * 1.0000001;
        pool.barrier().wait();
      }
    });
    least = std::min(least, seconds_now() - start);
  }
  return least;
}

TEST(ThreadPool, TwoWorkersOnContendedCoresAreNotSlowerThanOne) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> neighbours(std::thread::hardware_concurrency());
  for (std::thread& each : neighbours)
    each = std::thread([&] {
      while (!stop.load(std::memory_order_relaxed)) relax();
    });
  double ratio = 1e9;  // about 0.6; spinning gave 5
  for (int attempt = 0; attempt < 5 && ratio > 1.5; ++attempt) {
    const double one = seconds_of_phases(1);
    ratio = std::min(ratio, seconds_of_phases(2) / one);
  }
  stop = true;
  for (std::thread& each : neighbours) each.join();
  EXPECT_LE(ratio, 1.5);
}

TEST(ThreadPool, ParallelForCoversTheRangeAndRethrows) {
  ThreadPool pool(3);
  std::vector<std::atomic<int>> seen(1001);
  pool.parallel_for(1001, 7, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
  });
  for (const auto& count : seen) EXPECT_EQ(count, 1);
  EXPECT_THROW(pool.parallel_for(10, 1,
                                 [](int64_t begin, int64_t) {
                                   if (begin == 5) throw Error(ErrorKind::kInput, "five");
                                 }),
               Error);
  pool.run([](int) {});  // the pool is still usable
}

TEST(ThreadPool, RunsASinglePieceOnTheCaller) {
  ThreadPool pool(3);
  int calls = 0;
  std::thread::id thread;
  pool.parallel_for(5, 5, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 5);
    thread = std::this_thread::get_id();
    ++calls;
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(thread, std::this_thread::get_id());
  EXPECT_THROW(pool.parallel_for(1, 1, [](int64_t, int64_t) { throw 1; }), int);
  pool.parallel_for(0, 1, [&](int64_t, int64_t) { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(MappedFile, ReadsContentsAlsoAfterRelease) {
  const std::string path = testing::TempDir() + "veery-mapped-" + std::to_string(getpid());
  std::ofstream(path) << std::string(10000, 'x');
  const MappedFile file(path);
  ASSERT_EQ(file.bytes().size(), 10000U);
  file.release(file.bytes());
  EXPECT_EQ(file.bytes()[5000], std::byte{'x'});
  std::filesystem::remove(path);
  EXPECT_THROW(MappedFile("/no/such/file"), Error);
  EXPECT_THROW(MappedFile(testing::TempDir()), Error);
}

}  // namespace
}  // namespace veery
