#include "examples/parameter_worker/embedding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace parameter_worker {
namespace {

namespace rpc = hymn::rpc;

std::atomic<std::size_t> worker_limit{std::numeric_limits<std::size_t>::max()};

/// The references of the trainer that has made the embedding, as soon as it has.
hymn::Promise<Shards>& promised() {
  static hymn::Promise<Shards> promise;
  return promise;
}

// What workers do when they are called, and a trainer for the others.
const auto make_shard = rpc::register_function("embedding.make_shard", [](const ShardShape& shape) {
  if (shape.bytes() > worker_limit)
    throw hymn::ResourceError(fmt::format("{:.1f} MB of embedding are more than the {:.1f} MB that "
                                          "this worker gives",
                                          megabytes(shape.bytes()), megabytes(worker_limit)),
                              {.remedy = "divide it among more workers, or let them give more"});
  return Shard(shape);
});
const auto get_rows = rpc::register_function(
    "embedding.rows", [](const rpc::RemoteRef<Shard>& shard, const std::vector<RowId>& rows) {
      return shard.local_value().rows(rows);
    });
const auto make_step = rpc::register_function(
    "embedding.step", [](const rpc::RemoteRef<Shard>& shard, const std::vector<RowId>& rows,
                         const std::vector<float>& gradients, float rate) {
      shard.local_value().step(rows, gradients, rate);
      return std::uint64_t{rows.size()};
    });
const auto get_report =
    rpc::register_function("embedding.report", [](const rpc::RemoteRef<Shard>& shard) {
      return shard.local_value().report(rpc::Agent::current().self().name);
    });
// A future: nobody's thread waits until it is made.
const auto get_shards =
    rpc::register_function("embedding.shards", [] { return promised().get_future(); });

}  // namespace

Shard::Shard(const ShardShape& shape)
    : shape_(shape),
      values_(std::size_t{shape.own_rows()} * shape.width),
      squares_(shape.own_rows()) {
  Random random(shape.seed + shape.part);
  for (float& value : values_)
    value = static_cast<float>((random.fraction() - 0.5) / static_cast<double>(shape.width));
}

std::span<float> Shard::row(RowId row) {
  if (row >= shape_.rows || row % shape_.parts != shape_.part)
    throw hymn::UsageError(fmt::format("row {} is not in this shard", row));
  return std::span(values_).subspan(std::size_t{row / shape_.parts} * shape_.width, shape_.width);
}

std::vector<float> Shard::rows(std::span<const RowId> rows) {
  std::vector<float> found;
  found.reserve(rows.size() * shape_.width);
  const std::lock_guard lock(*mutex_);
  for (const RowId each : rows) {
    const std::span<const float> values = row(each);
    found.insert(found.end(), values.begin(), values.end());
  }
  done_.given += rows.size();
  return found;
}

void Shard::step(std::span<const RowId> rows, std::span<const float> gradients, float rate) {
  if (gradients.size() != rows.size() * shape_.width)
    throw hymn::UsageError("gradients are not of these rows");
  const std::lock_guard lock(*mutex_);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::span<float> values = row(rows[i]);
    const auto gradient = gradients.subspan(i * shape_.width, shape_.width);
    float square = 0;
    for (const float each : gradient) square += each * each;
    float& squares = squares_[rows[i] / shape_.parts];
    squares += square / static_cast<float>(shape_.width);
    if (squares == 0) continue;
    const float factor = rate / std::sqrt(squares);
    for (std::size_t k = 0; k < values.size(); ++k) values[k] -= factor * gradient[k];
  }
  done_.taken += rows.size();
}

ShardReport Shard::report(const std::string& worker) {
  const std::lock_guard lock(*mutex_);
  ShardReport report = done_;
  report.worker = worker;
  report.rows = squares_.size();
  report.learnt = squares_.size() - static_cast<std::size_t>(std::ranges::count(squares_, 0.0f));
  return report;
}

void limit_worker_memory(std::size_t bytes) { worker_limit = bytes; }

std::string why_refused(rpc::Agent& agent, const ShardShape& shape, const std::string& worker) {
  try {
    agent.remote(worker, make_shard, shape).made().get();
  } catch (const hymn::ResourceError& error) {
    return error.problem();
  }
  return {};
}

void make_embedding(rpc::Agent& agent, const ShardShape& whole,
                    const std::vector<std::string>& workers) {
  try {
    Shards shards;
    ShardShape shape = whole;
    shape.parts = static_cast<std::uint32_t>(workers.size());
    for (const std::string& worker : workers) {
      shards.push_back(agent.remote(worker, make_shard, shape));
      ++shape.part;
    }
    for (const auto& shard : shards) shard.made().get();
    promised().set_value(std::move(shards));
  } catch (...) {
    promised().set_error(std::current_exception());
    throw;
  }
}

Embedding::Embedding(rpc::Agent& agent, const std::string& maker, std::uint32_t width)
    : agent_(agent), width_(width), shards_(agent.rpc_sync(maker, get_shards)) {}

std::vector<Embedding::Part> Embedding::divide(std::span<const RowId> rows) const {
  std::vector<Part> parts(shards_.size());
  for (std::size_t place = 0; place < rows.size(); ++place) {
    Part& part = parts[rows[place] % parts.size()];
    part.rows.push_back(rows[place]);
    part.places.push_back(place);
  }
  return parts;
}

template <class Result, class Call>
std::vector<Result> Embedding::ask(const Call& call) {
  try {
    std::vector<hymn::Future<Result>> answers;
    for (std::size_t i = 0; i < shards_.size(); ++i) answers.push_back(call(i));
    std::vector<Result> results;
    for (const hymn::Future<Result>& answer : answers) results.push_back(answer.get());
    return results;
  } catch (const hymn::Error& error) {
    throw std::runtime_error(fmt::format("the embedding cannot be reached: {}", error.what()));
  }
}

std::vector<float> Embedding::fetch(std::span<const RowId> rows) {
  const std::vector<Part> parts = divide(rows);
  const auto answers = ask<std::vector<float>>([&](std::size_t i) {
    return agent_.rpc_async(shards_[i].owner(), get_rows, shards_[i], parts[i].rows);
  });
  std::vector<float> values(rows.size() * width_);
  for (std::size_t i = 0; i < parts.size(); ++i)
    for (std::size_t k = 0; k < parts[i].places.size(); ++k)
      std::copy_n(answers[i].begin() + static_cast<std::ptrdiff_t>(k * width_), width_,
                  values.begin() + static_cast<std::ptrdiff_t>(parts[i].places[k] * width_));
  return values;
}

void Embedding::step(std::span<const RowId> rows, std::span<const float> gradients, float rate) {
  const std::vector<Part> parts = divide(rows);
  ask<std::uint64_t>([&](std::size_t i) {
    std::vector<float> own;
    for (const std::size_t place : parts[i].places) {
      const auto gradient = gradients.subspan(place * width_, width_);
      own.insert(own.end(), gradient.begin(), gradient.end());
    }
    return agent_.rpc_async(shards_[i].owner(), make_step, shards_[i], parts[i].rows, own, rate);
  });
}

std::vector<ShardReport> Embedding::report() {
  return ask<ShardReport>(
      [&](std::size_t i) { return agent_.rpc_async(shards_[i].owner(), get_report, shards_[i]); });
}

}  // namespace parameter_worker
