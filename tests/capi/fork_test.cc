// The C interface in a process that forks.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <veery/veery.h>

#include <array>
#include <string_view>
#include <veery/veery.hpp>

#include "support/sanitized.h"
#include "support/tiny_model.h"

namespace veery {
namespace {

veery_load_options one_thread() {
  veery_load_options options = c::load_options();
  options.threads = 1;
  return options;
}

class ForkedCApi : public ::testing::Test {
 protected:
  c::Model load() const {
    const veery_load_options options = one_thread();
    return c::Model(file_.path(), &options);
  }
  static veery_generate_options options_of(const c::Model& model, int64_t tokens) {
    veery_generate_options options = model.generate_options();
    options.max_tokens = tokens;
    options.temperature = 0;
    options.ignore_eos = 1;
    return options;
  }

  test::TinyModel file_;
};

// Runs `use` in a process forked from this one; whether it returned true in time.
template <typename F>
bool in_child(const F& use) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // a call that waits for threads of the parent never returns
    ::_exit(use() ? 0 : 1);
  }
  int status = -1;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool is_refused(veery_status status) {
  return status == VEERY_ERROR_UNSUPPORTED &&
         std::string_view(veery_last_message()).find("after a fork") != std::string_view::npos;
}

TEST_F(ForkedCApi, AModelLoadedBeforeAForkIsRefusedInTheChild) {
  c::Model model = load();
  c::Session session = model.session();
  const veery_generate_options options = options_of(model, 20);
  veery_answer* answer = nullptr;
  ASSERT_EQ(veery_start(model.get(), std::array<int32_t, 2>{256, 104}.data(), 2, &options, &answer),
            VEERY_OK);
  // GCC 12's AddressSanitizer does not unlock its allocator in the child of a fork, so no thread
  // may allocate meanwhile.
  if (test::kSanitized) {
    ASSERT_EQ(veery_answer_wait(answer, nullptr, nullptr), VEERY_OK);
  }
  EXPECT_TRUE(in_child([&] {
    veery_answer* other = nullptr;
    veery_piece piece;
    size_t count = 0;
    int32_t* ids = nullptr;
    bool good =
        is_refused(veery_generate(model.get(), "hi", 2, &options, nullptr, nullptr, &other));
    good = good && is_refused(veery_tokenize(model.get(), "hi", 2, 0, &ids, &count));
    good = good && is_refused(veery_answer_next(answer, -1, &piece));
    good = good && is_refused(veery_session_append(session.get(), "hi", 2));
    good = good && is_refused(veery_session_continue(session.get(), &options, &other));
    good = good && veery_answer_ids(answer, &count) == nullptr;
    veery_answer_cancel(answer);
    veery_answer_free(answer);
    veery_session_free(session.get());
    veery_model_free(model.get());
    return good;
  }));
  EXPECT_TRUE(in_child([&] {
    const veery_load_options one = one_thread();
    veery_model* own = nullptr;
    veery_answer* other = nullptr;
    const bool good = veery_model_load(file_.path().c_str(), &one, &own) == VEERY_OK &&
                      veery_generate(own, "hi", 2, &options, nullptr, nullptr, &other) == VEERY_OK;
    veery_answer_free(other);
    veery_model_free(own);
    return good;
  }));
  EXPECT_EQ(veery_answer_wait(answer, nullptr, nullptr), VEERY_OK);
  veery_answer_free(answer);
}

TEST_F(ForkedCApi, AProgramStartedByVforkDoesNotDisturbTheModel) {
  const c::Model model = load();
  const pid_t child = ::vfork();
  if (child == 0) {
    ::execl("/bin/true", "true", static_cast<char*>(nullptr));
    ::_exit(127);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const veery_generate_options options = options_of(model, 5);
  veery_answer* answer = nullptr;
  EXPECT_EQ(veery_generate(model.get(), "hi", 2, &options, nullptr, nullptr, &answer), VEERY_OK);
  veery_answer_free(answer);
}

}  // namespace
}  // namespace veery
