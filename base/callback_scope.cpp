#include "base/callback_scope.hpp"

namespace hymn {
namespace {

thread_local int depth = 0;

}  // namespace

CallbackScope::CallbackScope() noexcept { ++depth; }
CallbackScope::~CallbackScope() { --depth; }
bool CallbackScope::is_inside() noexcept { return depth > 0; }

}  // namespace hymn
