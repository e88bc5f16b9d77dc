#include "cli/inspect/inspect_files.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/printable.h"
#include "cli/inspect/attention_picture.h"
#include "file/output/npy.h"

namespace veery::cli {
namespace {

std::string title_of(const LayerInspection& layer) {
  std::string title = fmt::format("layer {}: {}", layer.layer, layer.mixer);
  if (layer.window > 0)
    title +=
        fmt::format(", {} of {} positions", layer.chunked ? "chunks" : "a window", layer.window);
  if (layer.sinks) title += ", the rest of each row up to 1 went to sinks";
  return title + " (queries down, keys to the right)";
}

}  // namespace

std::string shown_token(const Tokenizer& tokenizer, int32_t id) {
  return id < tokenizer.size() ? escaped(tokenizer.piece(id, true)) : std::string();
}

Json lens_json(const LayerInspection& layer, const InspectedText& text,
               const Tokenizer& tokenizer) {
  Json positions = Json::array();
  const size_t top = layer.lens.size() / text.ids.size();
  for (size_t p = 0; p < text.ids.size(); ++p) {
    Json row = Json::array();
    for (size_t i = p * top; i < (p + 1) * top; ++i)
      row.push_back({{"id", layer.lens[i].id},
                     {"token", shown_token(tokenizer, layer.lens[i].id)},
                     {"probability", layer.lens[i].probability}});
    positions.push_back(std::move(row));
  }
  return positions;
}

Json layer_json(const LayerInspection& layer) {
  Json json = {{"layer", layer.layer}, {"mixer", layer.mixer}, {"attends", layer.attends}};
  if (!layer.attends) return json;
  json["heads"] = layer.heads;
  json["key_heads"] = layer.key_heads;
  json["head_size"] = layer.head_size;
  json["scale"] = layer.scale;
  json["window"] = layer.window;
  json["chunked"] = layer.chunked;
  json["sinks"] = layer.sinks;
  return json;
}

InspectFolder::InspectFolder(const std::string& path, const InspectedText& text)
    : folder_(path), text_(text) {}

template <typename T>
void InspectFolder::write(Json& files, const std::string& scope, const char* name,
                          const std::vector<int64_t>& shape, const std::vector<std::string>& axes,
                          const std::vector<T>& values) {
  if (values.empty()) return;
  const std::string file = scope + name + ".npy";
  write_npy(folder_.file(file), shape, std::span<const T>(values));
  files[name] = {{"file", file}, {"shape", shape}, {"axes", axes}};
}

void InspectFolder::add(const LayerInspection& layer, int32_t top) {
  const auto rows = std::ssize(text_.ids), heads = std::ssize(layer.heads);
  const std::string scope = fmt::format("layer_{:02}_", layer.layer);
  Json json = layer_json(layer), files = Json::object();
  write(files, scope, "attention", {heads, rows, rows}, {"head", "query", "key"}, layer.attention);
  write(files, scope, "queries", {heads, rows, layer.head_size}, {"head", "position", "dimension"},
        layer.queries);
  write(files, scope, "keys", {std::ssize(layer.key_heads), rows, layer.head_size},
        {"key_head", "position", "dimension"}, layer.keys);
  write(files, scope, "hidden", {rows, std::ssize(layer.hidden) / rows}, {"position", "dimension"},
        layer.hidden);
  std::vector<int32_t> ids;
  std::vector<float> probabilities;
  for (const LensToken& token : layer.lens) {
    ids.push_back(token.id);
    probabilities.push_back(token.probability);
  }
  write(files, scope, "lens_ids", {rows, top}, {"position", "rank"}, ids);
  write(files, scope, "lens_probabilities", {rows, top}, {"position", "rank"}, probabilities);
  if (!layer.attention.empty()) {
    const std::string picture = scope + "attention.svg";
    folder_.write(picture,
                  draw_attention({title_of(layer), text_.tokens, layer.heads, layer.attention}));
    files["attention"]["picture"] = picture;
  }
  json["files"] = std::move(files);
  layers_.push_back(std::move(json));
}

void InspectFolder::commit(const Inspection& rest, const std::string& model) {
  Json tokens = Json::array(), files = Json::object();
  for (size_t i = 0; i < text_.ids.size(); ++i)
    tokens.push_back({{"id", text_.ids[i]}, {"text", text_.tokens[i]}});
  const auto rows = std::ssize(text_.ids);
  write(files, "", "embedding", {rows, std::ssize(rest.embedding) / rows},
        {"position", "dimension"}, rest.embedding);
  write(files, "", "final_hidden", {rows, std::ssize(rest.final) / rows}, {"position", "dimension"},
        rest.final);
  const Json index = {{"model", std::filesystem::path(model).filename().string()},
                      {"tokens", std::move(tokens)},
                      {"files", std::move(files)},
                      {"layers", std::move(layers_)}};
  folder_.write("index.json", dump_json(index) + "\n");
  folder_.commit();
}

}  // namespace veery::cli
