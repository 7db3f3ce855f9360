#include "examples/torch_digits/trainer.hpp"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>

namespace digits {
namespace {

using hymn::torch::CommHook;

}  // namespace

Net make_net(const Pictures& pictures, std::size_t classes, const Settings& settings) {
  torch::manual_seed(settings.seed);
  return Net(pictures.side(), static_cast<std::int64_t>(classes));
}

Trainer::Trainer(hymn::World& world, const uneven::Split& data, const Settings& settings)
    : settings_(settings),
      world_rank_(world.rank()),
      group_(world.group()),
      training_(data.training),
      test_(data.test),
      net_(make_net(training_, data.training.classes, settings)),
      // No momentum: an optimizer that remembers something differs between ranks after a join.
      optimizer_(net_->parameters(), settings.rate),
      loss_(at::zeros({2}, at::kDouble)) {
  wrap();
}

/// For the ranks that there are now.
void Trainer::wrap() {
  deal_.emplace(deal_for(group_.size(), training_.all().labels.size(0), settings_));
  stretches_.push_back({at_, group_.size()});
  const CommHook hook = settings_.bf16 ? CommHook::bf16_compress() : CommHook();
  ddp_.emplace(net_, group_, hymn::torch::DdpOptions{.hook = hook});
}

void Trainer::train() {
  while (!unless_rank_lost([&] { train_epochs(); }))
    while (!unless_rank_lost([&] { regroup(); })) {
    }
}

/// False when another rank was lost meanwhile.
template <class Do>
bool Trainer::unless_rank_lost(Do make) {
  try {
    make();
    return true;
  } catch (const hymn::Error& error) {
    using hymn::ErrorKind;
    if (error.kind() != ErrorKind::peer && error.kind() != ErrorKind::aborted) throw;
    fmt::print("rank {} after {} steps: {}\n", world_rank_, steps_, error.what());
    std::fflush(stdout);
  }
  return false;
}

void Trainer::train_epochs() {
  for (; at_.epoch < settings_.epochs; at_ = {at_.epoch + 1, 0}) {
    if (settings_.uneven)
      hymn::torch::join(*ddp_, [&] { run_batches(deal_->batches_of(group_.rank())); });
    else
      run_batches(steps_in(*deal_, settings_));
    report_epoch();
  }
}

void Trainer::run_batches(std::size_t batches) {
  for (; at_.batch < batches; ++at_.batch)
    step(training_.batch(*deal_, group_.rank(), at_.epoch, at_.batch));
}

void Trainer::step(const Batch& batch) {
  optimizer_.zero_grad();
  const at::Tensor loss =
      torch::nn::functional::cross_entropy((*ddp_)(batch.pictures), batch.labels);
  if (world_rank_ == settings_.lose_rank && steps_ == settings_.lose_at) std::raise(SIGKILL);
  loss.backward();  // gradients are averages over the ranks when it returns
  optimizer_.step();
  ++steps_;
  const auto samples = static_cast<double>(batch.labels.size(0));
  loss_ += at::tensor({loss.item<double>() * samples, samples}, at::kDouble);
}

void Trainer::report_epoch() {
  hymn::torch::all_reduce(loss_, group_);
  if (group_.rank() == 0)
    fmt::print("{:>7}{:>10.4f}{:>10.1f} %\n", at_.epoch + 1, (loss_[0] / loss_[1]).item<double>(),
               100 * accuracy(net_, test_.all()));
  std::fflush(stdout);
  loss_.zero_();
}

/// The ranks that are left go on, in a group of their own. The rest of the epoch is dealt anew:
/// some of its samples are seen twice in it, and some not at all.
void Trainer::regroup() {
  ddp_.reset();
  group_ = group_.shrink();
  catch_up();
  wrap();
}

/// Some ranks may have made the step in which the rank was lost, and others not.
void Trainer::catch_up() {
  const at::Tensor place =
      at::tensor({std::int64_t{at_.epoch}, static_cast<std::int64_t>(at_.batch)});
  steps_ = hymn::torch::synchronize_from_furthest(group_, steps_, net_, optimizer_, {place});
  at_ = {static_cast<int>(place[0].item<std::int64_t>()),
         static_cast<std::size_t>(place[1].item<std::int64_t>())};
}

bool Trainer::is_same_on_all_ranks() {
  const at::Tensor mine = flat(net_);
  at::Tensor first = mine.clone();
  hymn::torch::broadcast(first, group_.global_rank(0), group_);
  at::Tensor same = at::full({1}, at::equal(first, mine) ? 1 : 0, at::kByte);
  hymn::torch::all_reduce(same, group_, hymnMin);
  return same.item<std::uint8_t>() == 1;
}

}  // namespace digits
