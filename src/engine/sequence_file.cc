#include "engine/sequence_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "file/output/pending_file.h"

namespace veery {
namespace {

constexpr size_t kSampledTensors = 16, kSampledBytes = 1024;
constexpr uint64_t kUnit = 8;  // parts of the file are padded to multiples of it

uint64_t padded(uint64_t bytes) { return round_up(bytes, kUnit); }

void set_name(char (&field)[8], DType type) {
  const std::string_view name = info(type).name;
  std::copy(name.begin(), name.end(), field);
}

std::string name_of(const char (&field)[8]) { return printable({field, strnlen(field, 8)}); }

// Adds the configuration: config.json, and the scalar metadata without the vocabulary and the
// general description of the file.
void add_configuration(Hash& hash, const Model& model) {
  const ModelFile& file = model.file();
  if (file.config) hash.add(dump_json(*file.config));
  for (const auto& [key, value] : file.metadata.all()) {
    if (key.starts_with("general.") || key.starts_with("tokenizer.")) continue;
    if (const auto* text = std::get_if<std::string>(&value))
      hash.add(key + "=" + *text);
    else if (const auto* number = std::get_if<double>(&value))
      hash.add(fmt::format("{}={}", key, *number));
    else if (const auto* whole = std::get_if<int64_t>(&value))
      hash.add(fmt::format("{}={}", key, *whole));
    else if (const auto* natural = std::get_if<uint64_t>(&value))
      hash.add(fmt::format("{}={}", key, *natural));
    else if (const auto* truth = std::get_if<bool>(&value))
      hash.add(fmt::format("{}={}", key, *truth));
  }
}

// Adds a sample from the middle of a tensor, because the beginnings of tensors may be equal.
void add_sample(Hash& hash, const TensorView& tensor) {
  if (!tensor.source) {
    const size_t size = std::min(kSampledBytes, tensor.data.size());
    return hash.add(tensor.data.subspan((tensor.data.size() - size) / 2, size));
  }
  if (tensor.elements() == 0) return;
  const int64_t rows = tensor.elements() / tensor.columns();
  std::vector<std::byte> row(byte_size(tensor.dtype, tensor.columns()));
  tensor.source->read(rows / 2, rows / 2 + 1, row.data());
  hash.add(row);
}

class Writer {
 public:
  Writer(PendingFile& file) : file_(file) {}
  void add(const void* data, size_t size) {
    hash_.add(std::span(static_cast<const std::byte*>(data), size));
    file_.write(data, size);
    file_.pad(kUnit);
  }
  void end() {
    const uint64_t value = hash_.value();
    file_.write(&value, sizeof(value));
  }

 private:
  PendingFile& file_;
  Hash hash_;
};

void write_pages(Writer& writer, const StateStore& states, std::span<const Pages::Place> places) {
  std::vector<std::byte> page;
  for (const Pages::Place& place : places) {
    page.resize(states.groups()[static_cast<size_t>(place.group)].page_bytes);
    states.read_page(place.group, place.page, place.positions, page);
    writer.add(page.data(), page.size());
  }
}

uint64_t file_bytes(Session& session, const SequenceFileHeader& header,
                    std::span<const int32_t> snapshots) {
  const Pages& pages = session.pages();
  uint64_t bytes = sizeof(header) + padded(uint64_t{header.tokens} * sizeof(int32_t)) +
                   padded(uint64_t{header.snapshots} * sizeof(int32_t)) + padded(header.note);
  if (header.positions > 0)
    bytes += pages.bytes_of_places(static_cast<int32_t>(header.positions),
                                   (header.flags & kSequenceEncoded) != 0);
  for (const int32_t position : snapshots) bytes += pages.bytes_of_snapshot(position);
  return bytes + sizeof(uint64_t);
}

SequenceFileHeader header_of(Session& session, const SavedShape& shape,
                             const SavedSequence& saved) {
  SequenceFileHeader header{.magic = kSequenceMagic, .version = kSequenceVersion};
  const LoadOptions& options = session.model().options();
  header.flags = (shape.extended ? kSequenceExtended : 0U) |
                 (shape.encoded ? kSequenceEncoded : 0U) | (options.exact ? kSequenceExact : 0U);
  header.model = model_fingerprint(session);
  set_name(header.keys, *options.cache_keys);
  set_name(header.values, *options.cache_values);
  header.tokens = static_cast<uint32_t>(saved.ids.size());
  header.positions = static_cast<uint32_t>(saved.positions);
  header.note = static_cast<uint32_t>(saved.note.size());
  return header;
}

}  // namespace

uint64_t model_fingerprint(Session& session) {
  const Model& model = session.model();
  Hash hash;
  hash.add(model.config().architecture);
  hash.add(model.config().vocab);
  add_configuration(hash, model);
  hash.add(session.states().layout());
  std::vector<const TensorView*> weights;
  for (const Node& node : model.entry().graph.nodes()) {
    if (node.op != op::kParam) continue;
    const TensorView* tensor = model.file().find(node.name);
    if (tensor == nullptr) continue;
    hash.add(node.name);
    hash.add(info(tensor->dtype).name);
    for (const int64_t size : tensor->shape) hash.add(size);
    weights.push_back(tensor);
  }
  const size_t step = std::max<size_t>(weights.size() / kSampledTensors, 1);
  for (size_t i = 0; i < weights.size(); i += step) add_sample(hash, *weights[i]);
  return hash.value();
}

void write_sequence(Session& session, int32_t sequence, const SavedSequence& saved,
                    const std::string& path) {
  check_size(path, saved.note.size(), kSequenceNote);
  VEERY_CHECK(saved.positions >= 0 && static_cast<size_t>(saved.positions) <= saved.ids.size());
  const bool any = saved.positions > 0;
  const SavedShape shape = any ? session.shape(sequence) : SavedShape();
  SequenceFileHeader header = header_of(session, shape, saved);
  std::vector<int32_t> snapshots;
  if (any) snapshots = session.pages().snapshots(sequence);
  std::erase_if(snapshots, [&](int32_t position) { return position > saved.positions; });
  header.snapshots = static_cast<uint32_t>(snapshots.size());
  header.bytes = file_bytes(session, header, snapshots);

  PendingFile file(path, {.inputs = inputs_of(session.model().file())});
  Writer writer(file);
  writer.add(&header, sizeof(header));
  writer.add(saved.ids.data(), saved.ids.size() * sizeof(int32_t));
  writer.add(snapshots.data(), snapshots.size() * sizeof(int32_t));
  writer.add(saved.note.data(), saved.note.size());
  if (any) write_pages(writer, session.states(), session.pages().places(sequence, saved.positions));
  for (const int32_t position : snapshots)
    write_pages(writer, session.states(), session.pages().snapshot_places(sequence, position));
  writer.end();
  VEERY_CHECK(file.position() == header.bytes);
  file.finish();
  file.commit();
}

SequenceFile::SequenceFile(Session& session, const std::string& path)
    : session_(session), path_(path), shown_(shown_path(path)), file_(open_regular(path)) {
  struct stat status {};
  if (fstat(file_.get(), &status) != 0)
    throw Error(ErrorKind::kIo, "{}: cannot be read: {}", shown_, std::strerror(errno));
  const auto bytes = static_cast<uint64_t>(status.st_size);
  if (bytes < sizeof(header_))
    throw Error(ErrorKind::kFormat, "{}: has {} bytes, expected a saved session", shown_, bytes);
  read(std::as_writable_bytes(std::span(&header_, 1)));
  check(header_);
  if (header_.bytes != bytes)
    throw Error(ErrorKind::kFormat, "{}: has {} bytes, expected {}: it was cut off or added to",
                shown_, bytes, header_.bytes);
  if (const uint64_t least = file_bytes(session, header_, {}); bytes < least)
    throw Error(ErrorKind::kFormat, "{}: has {} bytes, expected {} or more for {} tokens", shown_,
                bytes, least, header_.tokens);
  read_lists();
}

// Checks that the caches of the file fit those of the session, and bounds every number in the
// header by which memory is allocated.
void SequenceFile::check(const SequenceFileHeader& header) const {
  if (header.magic != kSequenceMagic)
    throw Error(ErrorKind::kFormat, "{}: is no saved session", shown_);
  if (header.version != kSequenceVersion)
    throw Error(ErrorKind::kUnsupported, "{}: has version {} of saved sessions, expected {}",
                shown_, header.version, kSequenceVersion);
  const LoadOptions& options = session_.model().options();
  const auto require = [&](std::string_view what, const auto& found, const auto& expected) {
    if (found != expected)
      throw Error(ErrorKind::kInput, "{}: was saved with {} {}, this model has {}", shown_, what,
                  found, expected);
  };
  require("keys of type", name_of(header.keys), info(*options.cache_keys).name);
  require("values of type", name_of(header.values), info(*options.cache_values).name);
  require("activations in", (header.flags & kSequenceExact) != 0 ? "f32 (exact)" : "int8 or bf16",
          std::string_view(options.exact ? "f32 (exact)" : "int8 or bf16"));
  if (const uint64_t own = model_fingerprint(session_); header.model != own)
    throw Error(ErrorKind::kInput,
                "{}: was saved with another model (fingerprint {:016x}, that of {} is {:016x})",
                shown_, header.model, shown_path(session_.model().path()), own);
  if (header.positions > header.tokens || header.snapshots > header.positions)
    throw Error(ErrorKind::kFormat, "{}: has {} tokens, {} positions and {} snapshots", shown_,
                header.tokens, header.positions, header.snapshots);
  if (header.tokens > static_cast<uint32_t>(session_.context()))
    throw Error(ErrorKind::kLimit, "{}: has {} tokens, the context holds {}", shown_, header.tokens,
                session_.context());
  const bool attends = session_.model().config().source.layers > 0;
  if (header.positions > 0 && attends != ((header.flags & kSequenceEncoded) != 0))
    throw Error(ErrorKind::kFormat, "{}: {} the output of an encoder", shown_,
                attends ? "lacks" : "has");
  check_size(path_, header.note, kSequenceNote);
}

// Reads a part of the file and checks its padding.
void SequenceFile::read(std::span<std::byte> bytes) {
  std::array<std::byte, kUnit> zeros{};
  read_bytes(bytes);
  read_bytes(std::span(zeros).first(padded(bytes.size()) - bytes.size()));
  if (zeros != decltype(zeros){})
    throw Error(ErrorKind::kFormat, "{}: has no zeros before byte {}", shown_, position_);
  hash_.add(bytes);
}

void SequenceFile::read_bytes(std::span<std::byte> bytes) {
  for (std::span<std::byte> rest = bytes; !rest.empty();) {
    const ssize_t got =
        ::pread(file_.get(), rest.data(), rest.size(), static_cast<off_t>(position_));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw Error(ErrorKind::kIo, "{}: cannot be read: {}", shown_, std::strerror(errno));
    if (got == 0)
      throw Error(ErrorKind::kFormat, "{}: ends at byte {}, expected {}", shown_, position_,
                  header_.bytes);
    position_ += static_cast<uint64_t>(got);
    rest = rest.subspan(static_cast<size_t>(got));
  }
}

void SequenceFile::read_lists() {
  saved_.ids.resize(header_.tokens);
  saved_.positions = static_cast<int32_t>(header_.positions);
  snapshots_.resize(header_.snapshots);
  saved_.note.resize(header_.note);
  read(std::as_writable_bytes(std::span(saved_.ids)));
  read(std::as_writable_bytes(std::span(snapshots_)));
  read(std::as_writable_bytes(std::span(saved_.note)));
  int32_t before = 0;
  for (const int32_t position : snapshots_) {
    if (position <= before || position > saved_.positions)
      throw Error(ErrorKind::kFormat, "{}: has a snapshot at {}, behind {}, of {} positions",
                  shown_, position, before, saved_.positions);
    before = position;
  }
  const uint64_t expected = file_bytes(session_, header_, snapshots_);
  if (header_.bytes != expected)
    throw Error(ErrorKind::kFormat, "{}: has {} bytes, expected {} for {} tokens and {} snapshots",
                shown_, header_.bytes, expected, header_.tokens, header_.snapshots);
  for (const int32_t id : saved_.ids)
    if (id < 0 || id >= session_.model().config().vocab)
      throw Error(ErrorKind::kFormat, "{}: has token {}, the vocabulary has {}", shown_, id,
                  session_.model().config().vocab);
  if (valid_utf8(saved_.note) != saved_.note)
    throw Error(ErrorKind::kFormat, "{}: what is noted is not UTF-8", shown_);
}

void SequenceFile::read_pages(std::span<const Pages::Place> places) {
  StateStore& states = session_.states();
  std::vector<std::byte> page;
  for (const Pages::Place& place : places) {
    page.resize(states.groups()[static_cast<size_t>(place.group)].page_bytes);
    read(page);
    if (place.page >= 0) states.write_page(place.group, place.page, page);
  }
}

// Restores the last snapshots, up to the number of free ones. Pages of earlier ones are read only
// for the hash.
void SequenceFile::read_snapshots(int32_t sequence) {
  const auto unused = static_cast<size_t>(session_.pages().unused_snapshots());
  for (size_t i = 0; i < snapshots_.size(); ++i) {
    if (snapshots_.size() - i <= unused) session_.pages().make_snapshot(sequence, snapshots_[i]);
    read_pages(session_.pages().snapshot_places(sequence, snapshots_[i]));
  }
}

int32_t SequenceFile::load() {
  if (saved_.positions == 0) {
    check_hash();
    return -1;
  }
  std::vector<Pages::Place> places;
  const int32_t sequence =
      session_.open_saved({.position = saved_.positions,
                           .extended = (header_.flags & kSequenceExtended) != 0,
                           .encoded = (header_.flags & kSequenceEncoded) != 0},
                          places);
  try {
    read_pages(places);
    read_snapshots(sequence);
    check_hash();
  } catch (...) {
    session_.close(sequence);
    throw;
  }
  return sequence;
}

void SequenceFile::check_hash() {
  const uint64_t expected = hash_.value();
  uint64_t found = 0;
  read(std::as_writable_bytes(std::span(&found, 1)));
  if (found != expected)
    throw Error(ErrorKind::kFormat, "{}: is damaged: its hash is {:016x}, expected {:016x}", shown_,
                expected, found);
}

}  // namespace veery
