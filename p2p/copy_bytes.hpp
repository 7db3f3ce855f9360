// Copies of bytes, through the caches or past them.
#pragma once

#include <cstddef>

namespace hymn {

/// memcpy; with `stream` past the caches, and ordered before the thread's next release store.
void copy_bytes(void* to, const void* from, std::size_t bytes, bool stream);

/// memcpy past the caches, ordered by finish_streaming().
void stream_bytes(void* to, const void* from, std::size_t bytes);
/// Orders all streaming stores of this thread before whatever it stores next.
void finish_streaming();

}  // namespace hymn
