// The Python module hymn_torch._C.
#include <pybind11/chrono.h>
#include <pybind11/stl.h>

#include "backend.hpp"
#include "errors.hpp"
#include "gil.hpp"
#include "python_site.hpp"
#include "waiter.hpp"
#include "world.hpp"

namespace py = pybind11;

namespace hymn_torch {
namespace {

c10::intrusive_ptr<Backend> create(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                   double timeout_seconds, const std::string& name,
                                   const std::vector<int>& ranks, bool has_all) {
  GroupRequest request;
  request.store = store;
  request.rank = rank;
  request.size = size;
  request.timeout_seconds = timeout_seconds;
  request.name = name;
  request.ranks = ranks;
  request.has_all = has_all;
  return c10::make_intrusive<Backend>(request);
}

/// At the end of the process.
void shut_down() {
  const WithoutGil waiting;
  const bool has_operations = Operation::in_flight() > 0;
  Waiter::of_process().stop();
  end_all_worlds(has_operations);
}

uint64_t uses(const Backend& backend, const std::string& path) {
  uint64_t count = 0;
  check(hymnGroupUses(backend.group(), path.empty() ? nullptr : path.c_str(), nullptr, &count));
  return count;
}

}  // namespace
}  // namespace hymn_torch

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  using hymn_torch::Backend;
  py::module_::import("torch.distributed");  // knows the classes of c10d
  hymn_torch::set_own_code_of_torch();
  py::class_<Backend, c10::intrusive_ptr<Backend>, c10d::Backend>(module, "Backend")
      .def("give_up", &Backend::give_up, py::arg("reason"),
           py::call_guard<py::gil_scoped_release>())
      .def("_set_default_timeout", &Backend::setTimeout, py::arg("timeout"))
      .def("uses", &hymn_torch::uses, py::arg("path") = "");
  module.def("create", &hymn_torch::create, py::arg("store"), py::arg("rank"), py::arg("size"),
             py::arg("timeout_seconds"), py::arg("name"), py::arg("ranks"), py::arg("has_all"),
             py::call_guard<py::gil_scoped_release>());
  module.def("shut_down", &hymn_torch::shut_down);
  module.def("hymn_version", [] { return std::string(hymnGetVersion()); });
}
