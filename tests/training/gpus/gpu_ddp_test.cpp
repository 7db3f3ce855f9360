// PyTorch's tests of modules on GPUs: a net that ranks train on shares of a batch beside its local
// copy, which is trained on all of it.
#include "base/sanitizers.hpp"
#include "tests/training/gpus/small_nets.hpp"
#include "tests/training/gpus/spread.hpp"

namespace hymn::test {
namespace {

using training::GradientReducer;
using training::Parameter;
using training::ReducerOptions;

constexpr int ddp_ranks = 2;
constexpr std::size_t share = 2;  // samples of a rank

/// A net, and its twin whose gradients are averaged.
template <class Net>
class Twins {
 public:
  /// `describe` adds the parameters to a model.
  Twins(Spread& toys, World& world, const Net& net, const std::function<void(ToyModel&)>& describe)
      : toys_(toys), world_(world), net_(net) {
    describe(local_);
    describe(shared_);
    std::mt19937 engine(7);
    for (std::size_t i = 0; i < local_.size(); ++i) {
      const BufferView values = local_.parameters()[i].data;
      // As PyTorch scales weights: by what goes into each output.
      const double inputs =
          static_cast<double>(values.count) / static_cast<double>(values.shape[0]);
      write(values, random_values(values.count, .6 / std::sqrt(inputs), engine));
      // Of the others, wrong: the first rank's are broadcast.
      write(shared_.parameters()[i].data,
            world.rank() == 0 ? read(values) : Values(values.count, 99));
    }
  }
  std::vector<Parameter> shared() { return shared_.parameters(); }

  void step(const Samples& samples, GradientReducer& reducer) {
    give(local_, samples, [this](std::size_t i) { return local_.parameters()[i].gradient; });
    const auto first = share * static_cast<std::size_t>(world_.rank());
    reducer.prepare();
    toys_.synchronize(world_);
    give(shared_, samples.slice(first, share), [&](std::size_t i) { return reducer.gradient(i); });
    for (std::size_t i = shared_.size(); i-- > 0;) reducer.ready(i);
    reducer.finish();
    toys_.synchronize(world_);
  }
  void update(const GradientReducer& reducer, double rate) {
    for (std::size_t i = 0; i < local_.size(); ++i) {
      subtract(local_.parameters()[i].data, local_.parameters()[i].gradient, rate);
      subtract(shared_.parameters()[i].data, reducer.gradient(i), rate);
    }
  }
  void expect_same_values(double relative, double absolute) {
    for (std::size_t i = 0; i < local_.size(); ++i)
      expect_close(shared_.parameters()[i].data, local_.parameters()[i].data, relative, absolute,
                   "values of parameter " + std::to_string(i));
  }
  void expect_same_gradients(const GradientReducer& reducer, double tolerance) {
    for (std::size_t i = 0; i < local_.size(); ++i) {
      const BufferView mine = reducer.gradient(i);
      const BufferView local = local_.parameters()[i].gradient;
      EXPECT_TRUE(std::ranges::equal(mine.strides, local.strides)) << "parameter " << i;
      EXPECT_EQ(mine.dtype, local.dtype);
      EXPECT_EQ(mine.memory, MemoryKind::device);
      expect_close(mine, local, tolerance, tolerance, "gradient of parameter " + std::to_string(i));
    }
  }

 private:
  template <class Place>
  void give(ToyModel& model, const Samples& samples, Place gradient_of) {
    Tensors values;
    for (const Parameter& each : model.parameters()) values.push_back(read(each.data));
    const Tensors gradients = net_.gradients(values, samples);
    for (std::size_t i = 0; i < gradients.size(); ++i) write(gradient_of(i), gradients[i]);
  }
  static void subtract(const BufferView& values, const BufferView& gradient, double rate) {
    Values result = read(values);
    const Values by = read(gradient);
    for (std::size_t i = 0; i < by.size(); ++i) result[i] -= rate * by[i];
    write(values, result);
  }
  static void expect_close(const BufferView& mine, const BufferView& other, double relative,
                           double absolute, const std::string& what) {
    const Values a = read(mine);
    const Values b = read(other);
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i)
      ASSERT_NEAR(a[i], b[i], absolute + relative * std::abs(b[i])) << what << ", element " << i;
  }

  Spread& toys_;
  World& world_;
  const Net& net_;
  ToyModel local_;
  ToyModel shared_;
};

/// The layers of PyTorch's Net, DoubleGpuNet and QuadraGpuNet, on the GPUs that are named for each.
/// `named`: the group works on the first of these, as it is told.
void train_perceptron(int gpus_of_a_rank, const std::vector<int>& layers_on, bool named = false) {
  std::vector<std::int64_t> widths = {2, 10, 50, 4};
  if (layers_on.size() == 4) widths.push_back(4);
  const Perceptron net(widths);
  Spread toys(ddp_ranks, gpus_of_a_rank);
  for (const bool is_view : {false, true})
    toys.run([&](World& world) {
      GroupOptions options;
      if (named) options.gpu = toys.gpu(world, layers_on.front());
      ProcessGroup group = named ? world.new_group({0, 1}, options) : world.group();
      Twins<Perceptron> twins(toys, world, net, [&](ToyModel& model) {
        for (std::size_t i = 0; i < net.layers(); ++i)
          model.in(toys.memory_of(toys.gpu(world, layers_on[i])))
              .add("fc" + std::to_string(i + 1) + ".weight", net.shape(i));
      });
      GradientReducer reducer(group, twins.shared(),
                              {.first_bucket_bytes = 1000,
                               .bucket_bytes = 1000,
                               .gradient_as_bucket_view = is_view,
                               .stream = toys.streams()});
      toys.synchronize(world);
      Samples samples = random_samples(ddp_ranks * share, 2, 4);
      for (unsigned iteration = 0; iteration < 2; ++iteration) {
        twins.step(samples, reducer);
        twins.update(reducer, 1);
        twins.expect_same_values(1.3e-6, 5e-5);
        samples.shuffle_inputs(1337 + iteration);
      }
    });
}

TEST(GpuDdp, test_nccl_backend_multi_device_module_device_ids_None) {
  train_perceptron(2, {0, 1, 1});
}
// Which GPU it is a program says by its number, or not at all: memory tells.
TEST(GpuDdp, test_nccl_backend_1gpu_module_device_ids_integer_list) {
  train_perceptron(1, {0, 0, 0}, true);
  train_perceptron(2, {1, 1, 1}, true);
}
TEST(GpuDdp, test_nccl_backend_1gpu_module_device_ids_torch_device_list) {
  train_perceptron(1, {0, 0, 0});
  train_perceptron(2, {1, 1, 1});
}
TEST(GpuDdp, test_nccl_backend_2gpu_module) { train_perceptron(2, {0, 1, 1}); }
TEST(GpuDdp, test_nccl_backend_4gpu_module) { train_perceptron(4, {0, 1, 2, 3}); }

// --- Layouts

using Layers = std::vector<bool>;

/// Of a weight of convolutions.
std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& shape, bool channels_last) {
  const std::int64_t in = shape[1];
  const std::int64_t area = shape[2] * shape[3];
  return channels_last ? std::vector<std::int64_t>{in * area, 1, shape[3] * in, in}
                       : std::vector<std::int64_t>{in * area, area, shape[3], 1};
}

struct Layout {
  Layers are_channels_last;
  Layers are_halves;
  std::size_t bucket_bytes = 0;
  bool is_view = false;
};

void train_convolutions(Spread& toys, const Convolutions& net, const std::vector<int>& layers_on,
                        const Layout& layout) {
  toys.run([&](World& world) {
    Twins<Convolutions> twins(toys, world, net, [&](ToyModel& model) {
      for (std::size_t i = 0; i < net.layers(); ++i) {
        const DataType dtype = layout.are_halves[i] ? DataType::float16 : DataType::float32;
        const std::string name = "conv" + std::to_string(i);
        model.in(toys.memory_of(toys.gpu(world, layers_on[i])))
            .add(name + ".weight", net.shape(i), dtype,
                 strides_of(net.shape(i), layout.are_channels_last[i]))
            .add(name + ".bias", {net.shape(i)[0]}, dtype);
      }
    });
    GradientReducer reducer(world.group(), twins.shared(),
                            {.first_bucket_bytes = layout.bucket_bytes,
                             .bucket_bytes = layout.bucket_bytes,
                             .gradient_as_bucket_view = layout.is_view,
                             .stream = toys.streams()});
    toys.synchronize(world);
    const Samples samples = random_samples(ddp_ranks * share, net.inputs(), net.outputs());
    const bool has_halves = std::ranges::count(layout.are_halves, true) > 0;
    for (int iteration = 0; iteration < 3; ++iteration) {
      twins.step(samples, reducer);
      twins.expect_same_gradients(reducer, has_halves ? 1e-3 : 1e-5);
      twins.update(reducer, .1);
    }
  });
}

TEST(GpuDdp, test_grad_layout_2devicemodule) {
  const Convolutions net({8, 16, 32, 16, 8}, 5);
  Spread toys(ddp_ranks, 2);
  const Layers none(4, false), half = {true, true, false, false}, all(4, true);
  const Layers other_half = {false, false, true, true};
  using Choice = std::vector<Layers>;
  for (const Layers& formats : sanitized ? Choice{half} : Choice{none, half, all})
    for (const Layers& halves : sanitized ? Choice{other_half} : Choice{none, other_half, all})
      for (const std::size_t bytes : {std::size_t{1}, std::size_t{25} << 20})
        for (const bool is_view : {false, true})
          train_convolutions(toys, net, {0, 0, 1, 1}, {formats, halves, bytes, is_view});
}

}  // namespace
}  // namespace hymn::test
