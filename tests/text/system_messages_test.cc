// System and developer messages in templates of several kinds: no text is lost.
#include "text/system_messages.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "text/chat_template.h"

namespace veery {
namespace {

Json message(const char* role, const char* text) { return {{"role", role}, {"content", text}}; }

std::string rendered(const ChatTemplate& source, const Json& messages) {
  const auto render = [&](const Json& some) {
    return source.render({{"messages", some},
                          {"tools", nullptr},
                          {"documents", nullptr},
                          {"add_generation_prompt", true},
                          {"bos_token", "<s>"},
                          {"eos_token", "</s>"}});
  };
  return render(keep_first_system(fit_system_messages(messages, render), render));
}

std::string rendered(const char* source, const Json& messages) {
  return rendered(ChatTemplate(source), messages);
}

// Small templates that behave like published ones.
constexpr const char* kAll = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";
constexpr const char* kFirstOnly =
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
    "{{ raise_exception('System message must be at the beginning') }}{% endif %}"
    "[{{ m.role }}]{{ m.content }}{% endfor %}";
constexpr const char* kLosesLater =
    "{% if messages[0].role == 'system' %}[system]{{ messages[0].content }}{% endif %}"
    "{% for m in messages %}{% if m.role in ['user', 'assistant'] %}[{{ m.role }}]{{ m.content }}"
    "{% endif %}{% endfor %}";
constexpr const char* kAlternates =
    "{% if messages[0].role == 'system' %}{% set s = messages[0].content %}"
    "{% set rest = messages[1:] %}{% else %}{% set s = '' %}{% set rest = messages %}{% endif %}"
    "{% for m in rest %}{% if m.role != ['user', 'assistant'][loop.index0 % 2] %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}[{{ m.role }}]"
    "{% if loop.last %}{{ s }};{% endif %}{{ m.content }}{% endfor %}";
constexpr const char* kNoDeveloper =
    "{% for m in messages %}{% if m.role not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('unknown role') }}{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}";
constexpr const char* kNoSystem =
    "{% for m in messages %}{% if m.role != 'system' %}[{{ m.role }}]{{ m.content }}{% endif %}"
    "{% endfor %}";

TEST(SystemMessages, AreUnchangedIfTheTemplateRendersThem) {
  const Json messages = Json::array({message("system", "A"), message("user", "B"),
                                     message("developer", "C"), message("user", "D")});
  EXPECT_EQ(rendered(kAll, messages), "[system]A[user]B[developer]C[user]D");
}

TEST(SystemMessages, LaterOnesAreMergedIfTheTemplateRejectsThem) {
  const Json messages =
      Json::array({message("system", "A"), message("user", "B"), message("assistant", "C"),
                   message("system", "D"), message("user", "E")});
  EXPECT_EQ(rendered(kFirstOnly, messages), "[system]A\n\nD[user]B[assistant]C[user]E");
}

TEST(SystemMessages, LaterOnesAreMergedIfTheTemplateOmitsThem) {
  const Json messages = Json::array({message("system", "A"), message("system", "B"),
                                     message("user", "C"), message("developer", "D")});
  EXPECT_EQ(rendered(kLosesLater, messages), "[system]A\n\nB\n\nD[user]C");
}

TEST(SystemMessages, AFirstOneIsCreatedIfMissing) {
  const Json messages = Json::array({message("user", "A"), message("assistant", "B"),
                                     message("system", "C"), message("user", "D")});
  EXPECT_EQ(rendered(kFirstOnly, messages), "[system]C[user]A[assistant]B[user]D");
}

TEST(SystemMessages, AdjacentUserMessagesAreMergedIfRolesMustAlternate) {
  const Json messages =
      Json::array({message("user", "A"), message("system", "B"), message("user", "C")});
  EXPECT_EQ(rendered(kAlternates, messages), "[user]B;A\n\nC");
  EXPECT_EQ(rendered(kFirstOnly, messages), "[system]B[user]A[user]C");
}

TEST(SystemMessages, DeveloperBecomesSystemIfTheRoleIsUnknown) {
  const Json messages =
      Json::array({message("developer", "A"), message("user", "B"), message("developer", "C")});
  EXPECT_EQ(rendered(kNoDeveloper, messages), "[system]A[user]B[system]C");
}

TEST(SystemMessages, BeginTheFirstUserMessageIfTheTemplateRendersNone) {
  EXPECT_EQ(rendered(kNoSystem, Json::array({message("system", "A"), message("user", "B")})),
            "[user]A\n\nB");
  EXPECT_EQ(rendered(kNoSystem, Json::array({message("system", "A"), message("user", "B"),
                                             message("assistant", "C"), message("system", "D"),
                                             message("user", "E")})),
            "[user]A\n\nD\n\nB[assistant]C[user]E");
}

TEST(SystemMessages, ATemplateThatRejectsAnyKeepsItsOwnError) {
  const auto refuse = [] {
    return rendered(
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}"
        "{% endif %}{{ messages[0].content }}",
        Json::array({message("system", "A"), message("user", "B")}));
  };
  try {
    refuse();
    ADD_FAILURE() << "it was rendered";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_STREQ(error.what(), "no system");
  }
}

TEST(PublishedTemplatesSystemMessages, LoseNoText) {
  const std::filesystem::path folder =
      std::filesystem::path(VEERY_SOURCE_DIR) / ".." / "shared" / "chat-templates";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not there";
  int rendered_all = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    std::stringstream source;
    source << file.rdbuf();
    const ChatTemplate one(source.str());
    const Json messages = Json::array({message("system", "textA"), message("user", "textB"),
                                       message("assistant", "textC"), message("system", "textD"),
                                       message("developer", "textE"), message("user", "textF")});
    // Some require tools or fail for any assistant message.
    try {
      rendered(one, Json::array(
                        {message("user", "A"), message("assistant", "B"), message("user", "C")}));
    } catch (const Error&) {
      continue;
    }
    std::string text;
    try {
      text = rendered(one, messages);
    } catch (const Error& error) {
      // Templates that do not support system messages report it.
      EXPECT_EQ(error.kind(), ErrorKind::kInput) << entry.path() << error.what();
      EXPECT_NE(std::string(error.what()).find("ystem"), std::string::npos)
          << entry.path() << error.what();
      continue;
    }
    for (const char* part : {"textA", "textB", "textC", "textD", "textE", "textF"})
      EXPECT_NE(text.find(part), std::string::npos) << entry.path() << " loses " << part;
    ++rendered_all;
  }
  EXPECT_GT(rendered_all, 40);
}

}  // namespace
}  // namespace veery
