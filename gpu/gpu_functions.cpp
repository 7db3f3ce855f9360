// Loading the CUDA driver and NVML.
#include "gpu/gpu_functions.hpp"

namespace hymn {
namespace {

std::string load(cuda_api::Functions& f) {
  return load_table<cuda_api::Functions>(
      "libcuda.so.1", f.init, f.error_name, f.error_text, f.driver_version, f.count, f.device,
      f.name, f.uuid, f.old_uuid, f.total_memory, f.attribute, f.pci_bus_id, f.can_access_peer,
      f.retain_context, f.release_context, f.set_context, f.enable_peer_access, f.synchronize,
      f.allocate, f.release, f.allocate_on, f.release_on, f.fill, f.fill_on, f.to_gpu, f.to_host,
      f.between, f.pointer_attribute, f.pointer_attributes, f.push_context, f.pop_context,
      f.priorities, f.make_stream, f.destroy_stream, f.context_of_stream, f.id_of_stream,
      f.is_capturing, f.exchange_capture_mode, f.wait_event, f.make_event, f.destroy_event,
      f.record_event, f.record_event_flagged, f.query_event, f.elapsed, f.allocate_pinned,
      f.free_pinned, f.to_gpu_on, f.to_host_on, f.copy_on, f.get_ipc_handle, f.open_ipc_handle,
      f.close_ipc_handle, f.load_module, f.unload_module, f.kernel_of_module, f.load_kernel,
      f.launch, f.begin_capture, f.end_capture, f.instantiate, f.launch_graph, f.destroy_graph,
      f.destroy_graph_exec);
}

std::string load(nvml_api::Functions& f) {
  return load_table<nvml_api::Functions>("libnvidia-ml.so.1", f.init, f.shutdown, f.error_string,
                                         f.driver_version, f.count, f.device, f.uuid, f.pci_info,
                                         f.link_state, f.link_capability, f.link_remote_type,
                                         f.link_remote_pci, f.field_values, f.common_ancestor);
}

GpuFunctions load_all() {
  GpuFunctions all;
  all.cuda_problem = load(all.cuda);
  // It comes with the driver: where that is not, to search all folders once more is for nothing.
  all.nvml_problem =
      all.cuda_problem.empty() ? load(all.nvml) : "not looked for, as there is no CUDA driver";
  return all;
}

}  // namespace

const GpuFunctions& loaded_gpu_functions() {
  static const GpuFunctions functions = load_all();
  return functions;
}

}  // namespace hymn
