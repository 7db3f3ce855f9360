// Handles of the C API for objects of the C++ API, and back.
#include "hymn/interop_c.hpp"

#include "runtime/c_api/c_api.hpp"

namespace hymn {

ProcessGroup group_of(hymnGroup_t handle) { return c_api::need(handle, "group")->group; }
Work work_of(hymnWork_t handle) { return c_api::need(handle, "work")->work; }

hymnGroup_t handle_of(const ProcessGroup& group) {
  return new hymnGroup{.group = group, .is_shared = true};
}
hymnWork_t handle_of(const Work& work) { return new hymnWork{.work = work}; }

BufferView view_of_c(void* data, std::size_t count, hymnDataType_t dtype) {
  return c_api::output(data, count, dtype);
}
hymnDataType_t c_type_of(const BufferView& view) {
  return view.dtype == DataType::value ? HYMN_VALUE(view.element_bytes())
                                       : c_api::c_type(view.dtype);
}

hymnJoinable_t joinable_of(Joinable& joinable) {
  hymnJoinable_t given = HYMN_JOINABLE_INIT;
  given.made = reinterpret_cast<hymnMadeJoinable_t>(&joinable);
  return given;
}

}  // namespace hymn
