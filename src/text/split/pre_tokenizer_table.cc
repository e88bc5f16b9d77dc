#include <algorithm>
#include <array>
#include <iterator>

#include "text/split/pre_tokenizer.h"

// The patterns are those of the models' own tokenizer.json or tiktoken files; each row belongs to
// one model family.
namespace veery {
namespace {

using Patterns = std::span<const std::string_view>;

constexpr std::string_view kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepSeekWords =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kCjk = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr std::string_view kCjkDeepSeek1 =
    R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr std::string_view kThreeDigits = R"(\p{N}{1,3})";
constexpr std::string_view kQwen2Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kNewlines = R"([^\n]+|\n+)";
// Groups of three digits, counted from the right.
constexpr std::string_view kDigitGroups = R"(\p{N}{1,3}(?=(?:\p{N}{3})*+(?!\p{N})))";
constexpr std::string_view kWordsUpToPunctuation =
    R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)";

constexpr std::string_view kDefault[] = {
    R"([\p{P}\$\+<=>\^~\|]+)",
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))", R"(\p{N}+)",
    R"([0-9][0-9][0-9])"};
constexpr std::string_view kGpt2[] = {kGpt2Words};
constexpr std::string_view kDigitsGpt2[] = {R"(\p{N})", kGpt2Words};
constexpr std::string_view kLlama3[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::string_view kQwen2[] = {kQwen2Words};
constexpr std::string_view kQwen35[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}])"
    R"(+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::string_view kJais2[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!)"
    R"(\S))"
    R"(|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s)"};
constexpr std::string_view kMiniCpm5[] = {
    kThreeDigits,
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::string_view kUfakzeka[] = {
    R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::string_view kSeedCoder[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::string_view kBailing[] = {
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*)"
    R"(|\s*[\r\n]|\s+(?!\S)|\s+)"};
constexpr std::string_view kExaoneMoe[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)"};
constexpr std::string_view kLaguna[] = {kNewlines, kQwen2Words};

constexpr std::string_view kTekken[] = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::string_view kGpt4oWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re)"
    R"(|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'r)"
    R"(e|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o[] = {kGpt4oWords};
constexpr std::string_view kTinyAya[] = {R"(\d{1,3}(?=(?:\d{3})*+\b))", kGpt4oWords};
constexpr std::string_view kYoutu[] = {
    R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019})"
    R"(\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+)"
    R"(|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)",
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re)"
    R"(|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'r)"
    R"(e|'ve|'m|'ll|'d)?)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::string_view kKimiK2[] = {
    R"(\p{sc:Han}+)"
    R"(|[^\r\n\p{L}\p{N}]?(?:(?!\p{sc:Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])*)"
    R"((?:(?!\p{sc:Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?(?:(?!\p{sc:Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])+)"
    R"((?:(?!\p{sc:Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr std::string_view kDeepSeekLlm[] = {
    R"([\r\n])",
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
    R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A})"
    R"(\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556})"
    R"(\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF})"
    R"(\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D})"
    R"(\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D})"
    R"(\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4})"
    R"(\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4})"
    R"(\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124})"
    R"(\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F})"
    R"(\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
    R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F})"
    R"(\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17})"
    R"(\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3})"
    R"(\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF})"
    R"(\x{1E900}-\x{1E943}]+)",
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)",
    R"((?<!\s)\s+$)",
    kCjkDeepSeek1,
    R"(\p{N}+)"};
constexpr std::string_view kDeepSeekCoder[] = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
                                               kCjkDeepSeek1, R"(\p{N})"};
constexpr std::string_view kDeepSeek3[] = {kThreeDigits, kCjk, kDeepSeekWords};
constexpr std::string_view kSpark[] = {
    kThreeDigits, kCjk,
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)",
    R"(\p{N})"};
constexpr std::string_view kAfmoe[] = {
    kDigitGroups,
    R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF})"
    R"(\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF}\x{E40}-\x{E7F}\x{E80}-\x{EFF})"
    R"(\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF})"
    R"(\x{1100}-\x{11FF}]+)",
    kDeepSeekWords};

constexpr std::string_view kFalcon[] = {
    R"([\p{P}\$\+<=>\^~\|`]+)",
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))",
    R"([0-9][0-9][0-9])"};
constexpr std::string_view kBloom[] = {kWordsUpToPunctuation};
constexpr std::string_view kViking[] = {kWordsUpToPunctuation, R"(\p{N})"};
constexpr std::string_view kChameleon[] = {R"(<sentinel:[0-9]+>)",    R"(IMGIMG[A-I]{1,4}Z)",
                                           R"([\t\n]|    |  )",       R"(\p{N})",
                                           R"([\p{P}!-/:-@\[-`{-~])", kGpt2Words};
constexpr std::string_view kSuperBpe[] = {R"(\p{N}+)", R"((?=(?:\d{3})++(?!\d)))"};
constexpr std::string_view kLines[] = {kNewlines};
constexpr std::string_view kNotSpaces[] = {R"(\S+)"};

constexpr PreTokenizerInfo kTable[] = {
    {.name = "default", .patterns = kDefault},
    {.name = "llama3", .patterns = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "llama-v3", .patterns = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "llama-bpe", .patterns = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "falcon3", .patterns = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "falcon-h1", .patterns = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "pixtral", .patterns = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "midm-2.0", .patterns = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "lfm2", .patterns = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "jina-v5-nano", .patterns = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "minicpm5", .patterns = kMiniCpm5, .ignore_merges = true},
    {.name = "dbrx", .patterns = kLlama3},
    {.name = "smaug-bpe", .patterns = kLlama3},
    {.name = "chatglm-bpe", .patterns = kLlama3},
    {.name = "glm4", .patterns = kLlama3, .ignore_merges = true},
    {.name = "glm5", .patterns = kLlama3, .ignore_merges = true},
    {.name = "jais-2", .patterns = kJais2},
    {.name = "deepseek-llm", .patterns = kDeepSeekLlm},
    {.name = "deepseek-coder", .patterns = kDeepSeekCoder},
    {.name = "deepseek-v3", .patterns = kDeepSeek3},
    {.name = "hunyuan-dense", .patterns = kDeepSeek3},
    {.name = "hy_v4", .patterns = kDeepSeek3},
    {.name = "joyai-llm", .patterns = kDeepSeek3},
    {.name = "spark2_5", .patterns = kSpark},
    {.name = "youtu", .patterns = kYoutu, .ignore_merges = true},
    {.name = "falcon", .patterns = kFalcon},
    {.name = "gpt-2", .patterns = kGpt2},
    {.name = "gpt-neox", .patterns = kGpt2, .compose = true},
    {.name = "mpt", .patterns = kGpt2, .compose = true},
    {.name = "olmo", .patterns = kGpt2, .compose = true},
    {.name = "modern-bert", .patterns = kGpt2, .compose = true},
    {.name = "phi-2", .patterns = kGpt2},
    {.name = "jina-es", .patterns = kGpt2},
    {.name = "jina-de", .patterns = kGpt2},
    {.name = "jina-v2-es", .patterns = kGpt2},
    {.name = "jina-v2-de", .patterns = kGpt2},
    {.name = "jina-v1-en", .patterns = kGpt2},
    {.name = "jina-v2-code", .patterns = kGpt2},
    {.name = "roberta-bpe", .patterns = kGpt2},
    {.name = "gigachat", .patterns = kGpt2},
    {.name = "a.x-4.0", .patterns = kGpt2},
    {.name = "mellum", .patterns = kGpt2},
    {.name = "jais", .patterns = kGpt2},
    {.name = "trillion", .patterns = kGpt2},
    {.name = "granite-docling", .patterns = kGpt2},
    {.name = "exaone4", .patterns = kGpt2},
    {.name = "starcoder", .patterns = kDigitsGpt2},
    {.name = "refact", .patterns = kDigitsGpt2},
    {.name = "command-r", .patterns = kDigitsGpt2},
    {.name = "smollm", .patterns = kDigitsGpt2},
    {.name = "codeshell", .patterns = kDigitsGpt2},
    {.name = "exaone", .patterns = kDigitsGpt2},
    {.name = "minerva-7b", .patterns = kDigitsGpt2},
    {.name = "mellum2", .patterns = kDigitsGpt2},
    {.name = "qwen2", .patterns = kQwen2, .compose = true},
    {.name = "qwen35", .patterns = kQwen35, .compose = true},
    {.name = "deepseek-r1-qwen", .patterns = kQwen2},
    {.name = "kormo", .patterns = kQwen2},
    {.name = "f2llmv2", .patterns = kQwen2},
    {.name = "megrez", .patterns = kQwen2},
    {.name = "stablelm2", .patterns = kQwen2},
    {.name = "hunyuan", .patterns = kQwen2},
    {.name = "solar-open", .patterns = kQwen2},
    {.name = "grok-2", .patterns = kQwen2},
    {.name = "ufakzeka", .patterns = kUfakzeka},
    {.name = "laguna", .patterns = kLaguna},
    {.name = "seed-coder", .patterns = kSeedCoder},
    {.name = "bailingmoe", .patterns = kBailing},
    {.name = "bailingmoe2", .patterns = kBailing},
    {.name = "llada-moe", .patterns = kBailing},
    {.name = "exaone-moe", .patterns = kExaoneMoe},
    {.name = "tekken", .patterns = kTekken, .ignore_merges = true, .add_bos = true},
    {.name = "gpt-4o", .patterns = kGpt4o},
    {.name = "llama4", .patterns = kGpt4o},
    {.name = "kanana2", .patterns = kGpt4o},
    {.name = "talkie", .patterns = kGpt4o},
    {.name = "minimax-m2", .patterns = kGpt4o},
    {.name = "granite-embed-multi-97m", .patterns = kGpt4o, .ignore_merges = true},
    {.name = "tiny_aya", .patterns = kTinyAya},
    {.name = "cohere2moe", .patterns = kTinyAya},
    {.name = "kimi-k2", .patterns = kKimiK2},
    {.name = "afmoe", .patterns = kAfmoe},
    {.name = "superbpe", .patterns = kSuperBpe},
    {.name = "poro-chat", .patterns = kBloom},
    {.name = "bloom", .patterns = kBloom},
    {.name = "gpt3-finnish", .patterns = kBloom},
    {.name = "viking", .patterns = kViking},
    {.name = "chameleon", .patterns = kChameleon, .add_bos = true},
    {.name = "gemma4",
     .patterns = kLines,
     .add_bos = true,
     .plain_bytes = true,
     .space_marks = true,
     .newline_tokens = true},
    {.name = "granite-embed-multi-311m",
     .patterns = kLines,
     .add_bos = true,
     .plain_bytes = true,
     .space_marks = true,
     .newline_tokens = true},
    {.name = "sarvam-moe", .patterns = kLines, .plain_bytes = true, .space_marks = true},
    {.name = "whitespace", .patterns = kNotSpaces, .plain_bytes = true},
};

}  // namespace

std::span<const PreTokenizerInfo> all_pre_tokenizers() { return kTable; }

const PreTokenizerInfo* find_pre_tokenizer(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTable), std::end(kTable),
                                   [&](const PreTokenizerInfo& info) { return info.name == name; });
  return found == std::end(kTable) ? nullptr : found;
}

}  // namespace veery
