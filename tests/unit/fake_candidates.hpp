// Candidates that a test makes up, and a selector over them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "collectives/dispatch/selector.hpp"
#include "hymn/error.hpp"

namespace hymn::test {

using Answer = std::function<Verdict(const Request&)>;

inline Verdict always(const Request&) { return Verdict::yes(); }

inline std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const UnsupportedError& error) {
    return error.what();
  }
  return "nothing is thrown";
}

/// Of what has no figures.
class FakeModel {
 protected:
  /// `only` batch: it serves all.
  FakeModel(std::string method, std::string path, OpType only)
      : method_(std::move(method)),
        path_(std::move(path)),
        model_{.path = path_,
               .method = method_,
               .serves = op_types_where(
                   [only](OpType type) { return only == OpType::batch || type == only; }),
               .can_run = can_run_anything,
               .seconds = not_known} {}

  static Verdict can_run_anything(const PlanQuery&, const PlanContext&) { return Verdict::yes(); }
  static double not_known(const PlanQuery&, const PlanContext&) { return 0; }

  std::string method_;
  std::string path_;
  AlgorithmModel model_;
};

class FakeAlgorithm final : private FakeModel, public Algorithm {
 public:
  FakeAlgorithm(std::string method, std::string path, Answer answer, OpType only = OpType::batch)
      : FakeModel(std::move(method), std::move(path), only),
        Algorithm(FakeModel::model_),
        answer_(std::move(answer)) {}

  Verdict can_run(const Request& request) const override {
    ++asked;
    return answer_(request);
  }
  Reproducibility promises(const Request&) const override { return promise; }
  Operation& prepare(OperationStorage&, const Call&) override {
    throw std::logic_error("nothing is carried out here");
  }

  mutable std::atomic<int> asked{0};
  Reproducibility promise = Reproducibility::ranks;

 private:
  Answer answer_;
};

/// A selector over fakes that the test can still look at.
class Candidates {
 public:
  FakeAlgorithm& add(std::string method, std::string path, Answer answer,
                     OpType only = OpType::batch) {
    auto made = std::make_unique<FakeAlgorithm>(std::move(method), std::move(path),
                                                std::move(answer), only);
    FakeAlgorithm& added = *made;
    algorithms_.push_back(std::move(made));
    return added;
  }
  Selector selector(std::string_view path = "") { return selector(path, "", {}); }
  Selector selector(std::string_view path, std::string_view algo, PlanContext context,
                    Reproducibility level = Reproducibility::ranks) {
    return Selector(std::move(algorithms_),
                    {PathPolicy::parse(path, "the test"),
                     AlgoPolicy::parse(algo, "the test's algorithms"), level},
                    std::move(context));
  }

 private:
  Algorithms algorithms_;
};

inline Answer no(std::string reason) {
  return [reason = std::move(reason)](const Request&) { return Verdict::no(reason); };
}

inline float values[8];
inline const Request some_all_reduce = Request::all_reduce(BufferView(values), BufferView(values));

}  // namespace hymn::test
