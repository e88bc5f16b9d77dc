#include "cli/profile/plan_table.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "cli/output/output.h"
#include "dtype/fp8.h"

namespace veery::cli {
namespace {

// doubts() reports rows beyond this share of a peak rate and rates with a larger spread_of(). Rows
// with less than kWeighty of the time of a run are not measured precisely enough.
constexpr double kMaxShare = 1.05, kMaxSpread = 0.15, kWeighty = 0.01;

std::string place_of(const Plan& plan, const Operand& out) {
  const std::less<> before;
  if (is_state(out)) return "cache";
  if (!out || before(out.data, plan.arena()) ||
      !before(out.data, plan.arena() + plan.arena_bytes()))
    return "-";
  return fmt::format("{}", out.data - plan.arena());
}

/// Returns the types of weights and KV cache that a dispatch reads, then the type of its result.
std::string types_of(const Dispatch& dispatch) {
  std::vector<std::string_view> names;
  for (const Operand& in : dispatch.in) {
    const bool stored = in_panels(in) || is_state(in);
    const std::string_view type = info(in.dtype).name;
    if (stored && std::find(names.begin(), names.end(), type) == names.end()) names.push_back(type);
  }
  std::string text;
  for (std::string_view type : names) text += fmt::format("{}{}", text.empty() ? "" : "+", type);
  const std::string_view result = info(dispatch.out().dtype).name;
  return text.empty() ? std::string(result) : fmt::format("{}->{}", text, result);
}

Arithmetic products_of(const Dispatch& dispatch, const Node& node, const Plan& plan,
                       std::string_view kernel, bool device) {
  auto found = Arithmetic::kF32;
  if (plan.options().exact) return found;
  if (kernel.ends_with("_relaxed")) return Arithmetic::kBf16;
  // On a device attention accumulates scores and values by sequential f32 fma.
  const bool attends = !device && node.op == op::kAttend && node.as<AttendAttr>().shared == 0;
  for (const Operand& in : dispatch.in) {
    if (in_panels(in) && info(in.dtype).quantized && !is_fp8(in.dtype)) return Arithmetic::kInt8;
    if ((in_panels(in) || attends) && in.dtype == DType::kBF16) found = Arithmetic::kBf16;
  }
  return found;
}

double giga_rate(double amount, double seconds) { return seconds > 0 ? amount / seconds / 1e9 : 0; }

double share_of(double least, double seconds) { return seconds > 0 ? least / seconds : 0; }

Json json_of(const Roofline& limits) {
  return {{"memory_bytes_per_second", limits.memory},
          {"f32_operations_per_second", limits.f32},
          {"bf16_operations_per_second", limits.bf16},
          {"int8_operations_per_second", limits.int8},
          {fmt::format("{}_seconds", limits.what_least), limits.least}};
}

/// Appends the seconds of each row to its list of samples.
void keep(std::vector<std::vector<double>>& samples, const std::vector<double>& seconds) {
  samples.resize(seconds.size());
  for (size_t i = 0; i < seconds.size(); ++i) samples[i].push_back(seconds[i]);
}

}  // namespace

PlanTable::PlanTable(Plan& plan, const RunSize& size) : plan_(plan) { add_places(plan, size); }

// Adds the places in the order of their layers: the front is the place before the plan's own.
void PlanTable::add_places(const Plan& plan, const RunSize& size) {
  if (plan.front() != nullptr) {
    add_places(*plan.front(), size);
    add_crossings(plan, size);
  }
  add_part(plan, size);
}

void PlanTable::add_part(const Plan& plan, const RunSize& size) {
  const bool device = !plan.backend().runs_on_host();
  Part part{.plan = &plan, .device = device, .name = plan.backend().device().description()};
  for (size_t i = 0; i < plan.table().size(); ++i) {
    const Dispatch& dispatch = plan.table()[i];
    const Node& node = plan.graph()[plan.labels()[i].node];
    part.rows.push_back(
        {.label = plan.labels()[i],
         .shape = to_string(node.shape()),
         .types = types_of(dispatch),
         .place = place_of(plan, dispatch.out()),
         .cost = cost(plan, i, size),
         .products = products_of(dispatch, node, plan, plan.labels()[i].kernel, device)});
  }
  parts_.push_back(std::move(part));
}

// The copies follow the rows of the place that computes the values.
void PlanTable::add_crossings(const Plan& plan, const RunSize& size) {
  for (const Crossing& crossing : plan.crossings()) {
    const Shape& shape = crossing.type.shape;
    parts_.back().rows.push_back({.label = {"copy", "to_device", crossing.name},
                                  .shape = to_string(shape),
                                  .types = std::string(info(crossing.type.dtype).name),
                                  .place = "-",
                                  .cost = {.value_bytes = 4 * size.elements(shape)},
                                  .crosses = true});
  }
}

void PlanTable::profile(int32_t repetitions,
                        const std::function<void(int32_t, int32_t)>& progress) {
  std::vector<std::unique_ptr<PeakRateMeter>> meters;
  for (const Part& part : parts_) meters.push_back(std::make_unique<PeakRateMeter>(*part.plan));
  std::vector<std::vector<double>> samples;
  std::vector<double> whole;
  for (int32_t r = 0; r < repetitions; ++r) {
    for (const auto& meter : meters) meter->sample();
    std::vector<double> seconds;
    plan_.run_profiled(seconds);
    keep(samples, seconds);
    if (std::ranges::any_of(parts_, &Part::device)) {
      const double start = seconds_now();
      plan_.run();
      whole.push_back(seconds_now() - start);
    }
    progress(r + 1, repetitions);
  }
  profiled_ = true;
  whole_ = median(std::move(whole));
  size_t next = 0;
  for (size_t p = 0; p < parts_.size(); ++p) {
    parts_[p].limits = meters[p]->limits();
    parts_[p].spread = meters[p]->spread();
    for (Row& row : parts_[p].rows) {
      if (row.crosses) continue;  // not timed: part of the device's run
      row.seconds = median(std::move(samples[next++]));
      row.bound = bound(row.cost, row.products, parts_[p].limits);
    }
  }
}

void PlanTable::Total::add(const Row& row) {
  cost.weight_bytes += row.cost.weight_bytes;
  cost.state_bytes += row.cost.state_bytes;
  cost.value_bytes += row.cost.value_bytes;
  cost.flops += row.cost.flops;
  seconds += row.seconds;
  least += row.bound.seconds;
  if (row.bound.limit == "memory") reading += row.bound.seconds;
}

PlanTable::Total PlanTable::total() const {
  Total total;
  for (const Part& part : parts_)
    for (const Row& row : part.rows) total.add(row);
  return total;
}

// "cpu" or "gpu"; "gpu0", "gpu1" and so on if there are several.
std::string PlanTable::label_of(const Part& part) const {
  if (!part.device) return "cpu";
  if (std::ranges::count(parts_, true, &Part::device) == 1) return "gpu";
  const auto before = std::span(parts_).first(static_cast<size_t>(&part - parts_.data()));
  return fmt::format("gpu{}", std::ranges::count(before, true, &Part::device));
}

Json PlanTable::places_json() const {
  Json places = Json::array();
  for (const Part& part : parts_) {
    Json place = {{"device", label_of(part)},
                  {"target", part.name},
                  {"arena_bytes", part.plan->arena_bytes()}};
    if (profiled_) place["limits"] = json_of(part.limits);
    places.push_back(std::move(place));
  }
  return places;
}

Json PlanTable::json() const {
  Json list = Json::array();
  for (const Part& part : parts_)
    for (const Row& row : part.rows) {
      Json item = {{"index", list.size()},      {"device", label_of(part)},
                   {"op", row.label.op},        {"kernel", row.label.kernel},
                   {"phase", row.label.phase},  {"detail", row.label.detail},
                   {"shape", row.shape},        {"dtype", row.types},
                   {"bytes", row.cost.bytes()}, {"weight_bytes", row.cost.weight_bytes},
                   {"flops", row.cost.flops},   {"place", row.place}};
      if (profiled_ && !row.crosses) {
        item["seconds"] = row.seconds;
        item["limit"] = row.bound.limit;
        item["limit_seconds"] = row.bound.seconds;
        item["share"] = share_of(row.bound.seconds, row.seconds);
      }
      list.push_back(std::move(item));
    }
  const Part& last = parts_.back();
  Json all = {{"rows", plan_.options().rows},
              {"target", last.name},
              {"arena_bytes", plan_.arena_bytes()},
              {"table", std::move(list)}};
  if (parts_.size() > 1) all["places"] = places_json();
  if (!profiled_) return all;
  const Total total = this->total();
  all["seconds"] = total.seconds;
  all["weight_bytes_per_second"] = giga_rate(total.cost.weight_bytes, total.seconds) * 1e9;
  all["share"] = total.share();
  all["limits"] = json_of(last.limits);
  if (whole_ > 0) all["run_seconds"] = whole_;
  if (const std::vector<std::string> doubts = this->doubts(); !doubts.empty())
    all["warnings"] = doubts;
  return all;
}

std::vector<std::string> PlanTable::doubts() const {
  std::vector<std::string> lines;
  const double all = total().seconds;
  for (const Part& part : parts_) {
    size_t beyond = 0;
    const Row* worst = nullptr;
    const auto share = [](const Row& row) { return share_of(row.bound.seconds, row.seconds); };
    for (const Row& row : part.rows) {
      if (row.crosses || row.seconds < kWeighty * all || share(row) <= kMaxShare) continue;
      ++beyond;
      if (worst == nullptr || share(row) > share(*worst)) worst = &row;
    }
    if (worst != nullptr)
      lines.push_back(fmt::format(
          "{} rows exceed a measured peak rate ({} {} reaches {:.0f} % of {}): the rates are too "
          "low, because the weights fit into a cache or other programs use {}",
          beyond, worst->label.op, worst->label.detail, 100 * share(*worst), worst->bound.limit,
          part.name));
    if (part.spread > kMaxSpread)
      lines.push_back(fmt::format(
          "the peak rates of {} varied by {:.0f} % between the runs (interquartile range): other "
          "programs use it; repeat this on an idle machine",
          part.name, 100 * part.spread));
  }
  return lines;
}

struct PlanTable::Widths {
  size_t kernel = 6, detail = 6, types = 5;
};

std::string PlanTable::line(const Widths& widths, const std::string& index, std::string_view place,
                            const Row& row, const std::string& bytes) const {
  const std::string where = parts_.size() > 1 ? fmt::format(" {:<6}", place) : "";
  return fmt::format("{:>5}{} {:<14} {:<{}} {:<{}} {:<18} {:<{}} {:>9} {:>9}", index, where,
                     row.label.op, row.label.kernel, widths.kernel, row.label.detail, widths.detail,
                     row.shape, row.types, widths.types, bytes, row.place);
}

std::vector<std::string> PlanTable::lines() const {
  Widths widths;
  for (const Part& part : parts_)
    for (const Row& row : part.rows) {
      widths.kernel = std::max(widths.kernel, row.label.kernel.size());
      widths.detail = std::max(widths.detail, row.label.detail.size());
      widths.types = std::max(widths.types, row.types.size());
    }
  const std::string titles = profiled_ ? fmt::format(" {:>9} {:>5} {:>7} {:>9} {:>7} {:>5}", "us",
                                                     "%", "GB/s", "GFLOP/s", "limit", "share")
                                       : "";
  const Row names{
      .label = {"op", "kernel", "detail"}, .shape = "shape", .types = "dtype", .place = "arena"};
  std::vector<std::string> lines = {line(widths, "row", "device", names, "bytes") + titles};
  const double all = total().seconds;
  size_t index = 0;
  for (const Part& part : parts_)
    for (const Row& row : part.rows) {
      lines.push_back(line(widths, std::to_string(index++), label_of(part), row,
                           human_bytes(row.cost.bytes())));
      if (!profiled_ || row.crosses) continue;
      const auto& [limit, least] = row.bound;
      lines.back() += fmt::format(
          " {:>9.1f} {:>5.1f} {:>7.1f} {:>9.1f} {:>7} {:>5.0f}", row.seconds * 1e6,
          100 * share_of(row.seconds, all), giga_rate(row.cost.bytes(), row.seconds),
          giga_rate(row.cost.flops, row.seconds), limit, 100 * share_of(least, row.seconds));
    }
  add_sums(lines);
  return lines;
}

void PlanTable::add_sums(std::vector<std::string>& lines) const {
  for (const Part& part : parts_) {
    Total total;
    for (const Row& row : part.rows) total.add(row);
    lines.push_back(fmt::format(
        "{}: {} rows of the table for up to {} tokens, {} ({} of weights), {:.1f} MFLOP, arena {}, "
        "{}",
        parts_.size() > 1 ? label_of(part) : "total", part.rows.size(), plan_.options().rows,
        human_bytes(total.cost.bytes()), human_bytes(total.cost.weight_bytes),
        total.cost.flops / 1e6, human_bytes(static_cast<double>(part.plan->arena_bytes())),
        part.name));
    if (!profiled_) continue;
    const Roofline& limits = part.limits;
    const double rate = (total.cost.weight_bytes + total.cost.state_bytes) / total.seconds;
    lines.push_back(fmt::format(
        "run: {:.1f} us, {:.1f} GB/s of weights and cache{}, {:.1f} GFLOP/s; {:.0f} % of the "
        "limits",
        total.seconds * 1e6, rate / 1e9,
        total.reads() ? fmt::format(" ({:.0f} % of the read loop)", 100 * rate / limits.memory)
                      : "",
        giga_rate(total.cost.flops, total.seconds), 100 * total.share()));
    lines.push_back(fmt::format(
        "limits of {}, measured between the runs: memory {:.1f} GB/s (a plain read loop over the "
        "weights),\n  f32 {:.0f} GFLOP/s, bf16 {:.0f} GFLOP/s, int8 {:.0f} GOP/s{}, {} {:.2f} us",
        part.device ? part.name : fmt::format("{} threads", part.plan->backend().workers()),
        limits.memory / 1e9, limits.f32 / 1e9, limits.bf16 / 1e9, limits.int8 / 1e9,
        part.device ? "" : fmt::format(" ({})", part.name), limits.what_least, limits.least * 1e6));
  }
  if (!profiled_ || whole_ == 0) return;
  const Total total = this->total();
  lines.push_back(fmt::format(
      "rows of the GPU were timed one by one; a whole run takes {:.1f} us ({:.1f} GB/s), with its "
      "copies to and from the host",
      whole_ * 1e6, giga_rate(total.cost.weight_bytes + total.cost.state_bytes, whole_)));
}

}  // namespace veery::cli
