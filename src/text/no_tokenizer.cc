#include "text/no_tokenizer.h"

#include "base/error.h"

namespace veery {
namespace {

class NoTokenizer final : public Tokenizer {
 public:
  explicit NoTokenizer(std::string reason) : reason_(std::move(reason)) {}
  std::string piece(int32_t, bool) const override { return {}; }
  std::string decode(const std::vector<int32_t>&, bool) const override { return {}; }
  std::optional<int32_t> find(std::string_view) const override { return std::nullopt; }
  std::string token(int32_t) const override { return {}; }

 protected:
  std::vector<int32_t> encode_alone(std::string_view, const EncodeOptions&) const override {
    throw Error(ErrorKind::kNotFound, "{}", reason_);
  }

 private:
  std::string reason_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_no_tokenizer(std::string reason) {
  return std::make_unique<NoTokenizer>(std::move(reason));
}

}  // namespace veery
