// One rank's part in the training, for each way to deal with parts of different sizes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <hymn/hymn.hpp>
#include <memory>
#include <string_view>
#include <vector>

#include "examples/uneven_training/deal.hpp"
#include "examples/uneven_training/model.hpp"

namespace uneven {

enum class Way : std::uint8_t {
  alone,      ///< as if all ranks had as many batches: hangs where they have not
  drop,       ///< every rank stops after as many batches as the rank with least has
  shadow,     ///< Join::shadow_all
  joinables,  ///< a Joinable with a hook
  steal,      ///< no parts: whoever is ready takes the next few samples
};

std::string_view to_string(Way way);

class Worker {
 public:
  /// Collectives go over `group`, in which this rank is. `store` is for `steal` only.
  Worker(hymn::ProcessGroup group, const Samples& samples, const Deal& deal,
         const Settings& settings, std::shared_ptr<hymn::Store> store);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  /// All ranks call it. Afterwards all have the same model.
  void run_epoch(Way way, int epoch);

  Model& model() { return model_; }
  /// How many batches, or chunks, this rank has computed.
  std::size_t computed() const { return computed_; }
  /// What has been spent in all_reduce, and, with `steal`, in asking for work.
  std::chrono::duration<double> waited() const { return waited_; }
  std::chrono::duration<double> asked() const { return asked_; }
  /// How often this rank has used each sample.
  std::span<const std::int32_t> uses() const { return uses_; }

 private:
  class Gradients;

  void take(std::size_t sample);
  void compute(int epoch, std::size_t batch);
  /// Brings the sums of all ranks together, and changes the model: on all ranks that are here.
  void step();
  void run_batches(int epoch, std::size_t batches);
  void shadow(int epoch);
  void join(int epoch);
  void steal(int epoch);

  hymn::ProcessGroup group_;
  const Samples& samples_;
  const Deal& deal_;
  std::shared_ptr<hymn::Store> store_;
  Model model_;
  std::vector<float> sums_;
  std::vector<std::int32_t> uses_;
  std::size_t computed_ = 0;
  std::chrono::duration<double> waited_{0};
  std::chrono::duration<double> asked_{0};
};

/// The same training in this process alone: computes what each rank would, in the same steps, and
/// adds it up in the order of the ranks.
void train_serially(Model& model, const Samples& samples, const Deal& deal, int epoch);

}  // namespace uneven
