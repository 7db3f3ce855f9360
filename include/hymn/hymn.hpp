// Everything but the headers that need other libraries.
#pragma once

#include "hymn/standard.hpp"  // first

#include "hymn/allocate.hpp"       // IWYU pragma: export
#include "hymn/chunk_queue.hpp"    // IWYU pragma: export
#include "hymn/coalesce.hpp"       // IWYU pragma: export
#include "hymn/error.hpp"          // IWYU pragma: export
#include "hymn/join.hpp"           // IWYU pragma: export
#include "hymn/mesh.hpp"           // IWYU pragma: export
#include "hymn/process_group.hpp"  // IWYU pragma: export
#include "hymn/rendezvous.hpp"     // IWYU pragma: export
#include "hymn/settings.hpp"       // IWYU pragma: export
#include "hymn/shard.hpp"          // IWYU pragma: export
#include "hymn/store.hpp"          // IWYU pragma: export
#include "hymn/threads.hpp"        // IWYU pragma: export
#include "hymn/values.hpp"         // IWYU pragma: export
#include "hymn/world.hpp"          // IWYU pragma: export
