// Generates several continuations of a prompt in parallel: branches MODEL PROMPT [BRANCHES]
#include <cstdio>
#include <cstdlib>
#include <veery/veery.hpp>

int main(int count, char** arguments) {
  if (count < 3) {
    std::fprintf(stderr, "usage: branches MODEL PROMPT [BRANCHES]\n");
    return 2;
  }
  try {
    const veery::c::Model model(arguments[1]);
    veery::c::Session trunk = model.session();
    trunk.append(arguments[2]);
    std::vector<veery::c::Session> branches;
    std::vector<veery::c::Answer> answers;
    veery_generate_options options = model.generate_options();
    options.max_tokens = 16;
    const int wanted = count > 3 ? std::atoi(arguments[3]) : 3;
    for (int i = 0; i < wanted; ++i) {
      options.seed = static_cast<uint64_t>(i);
      branches.push_back(trunk.fork());
      answers.push_back(branches.back().go_on(&options));  // answers are generated in one batch
    }
    for (veery::c::Answer& answer : answers) {
      answer.wait();
      std::printf("%s\n", answer.text().c_str());
    }
  } catch (const veery::c::Failure& failure) {
    std::fprintf(stderr, "%s: %s\n", veery_status_name(failure.status()), failure.what());
    return 1;
  }
  return 0;
}
