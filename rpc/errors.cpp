#include "rpc/errors.hpp"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <typeindex>
#include <utility>

#include "hymn/error.hpp"
#include "hymn/rpc_error.hpp"

namespace hymn::rpc {

RemoteOrigin::~RemoteOrigin() = default;
RemoteError::~RemoteError() = default;

namespace detail {
namespace {

/// What is thrown here.
template <class E>
class Thrown final : public E, public RemoteOrigin {
 public:
  template <class... Args>
  explicit Thrown(const RemoteOrigin& origin, Args&&... args)
      : E(std::forward<Args>(args)...), RemoteOrigin(origin) {}
};

/// It takes no text.
class ThrownBadAlloc final : public std::bad_alloc, public RemoteOrigin {
 public:
  ThrownBadAlloc(const RemoteOrigin& origin, std::string text)
      : RemoteOrigin(origin), text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

struct ErrorWire {
  std::string type{};  ///< of an exception that is none of hymn's; empty: of hymn's
  std::string text{};
  std::uint8_t kind = 0;
  int rank = -1;
  std::string group{};
  std::string operation{};
  std::string remedy{};
  std::vector<int> missing{};
  std::int64_t waited_ns = 0;
  std::string backend{};
  int code = 0;
  int origin_rank = -1;
  std::string worker{};
  std::string function{};
  std::string site{};
  static auto object_fields(auto& self) {
    return std::tie(self.type, self.text, self.kind, self.rank, self.group, self.operation,
                    self.remedy, self.missing, self.waited_ns, self.backend, self.code,
                    self.origin_rank, self.worker, self.function, self.site);
  }
};

class ErrorTypes {
 public:
  static ErrorTypes& instance() {
    static ErrorTypes types;
    return types;
  }
  /// `thrown`: what is made of it here, and may be passed on.
  void add(const std::type_info& type, const std::type_info& thrown, std::string name,
           MakeError make) {
    const std::lock_guard lock(mutex_);
    names_[type] = names_[thrown] = name;
    makers_[std::move(name)] = std::move(make);
  }
  std::string name_of(const std::type_info& type) {
    const std::lock_guard lock(mutex_);
    const auto found = names_.find(type);
    return found == names_.end() ? std::string() : found->second;
  }
  MakeError maker(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto found = makers_.find(name);
    return found == makers_.end() ? MakeError() : found->second;
  }

 private:
  template <class E>
  void add_standard(std::string name) {
    add(typeid(E), typeid(Thrown<E>), std::move(name),
        [](const std::string& text, const RemoteOrigin& origin) {
          return std::make_exception_ptr(Thrown<E>(origin, text));
        });
  }
  ErrorTypes() {
    add_standard<std::runtime_error>("std::runtime_error");
    add_standard<std::logic_error>("std::logic_error");
    add_standard<std::out_of_range>("std::out_of_range");
    add_standard<std::invalid_argument>("std::invalid_argument");
    add_standard<std::domain_error>("std::domain_error");
    add_standard<std::length_error>("std::length_error");
    add_standard<std::range_error>("std::range_error");
    add_standard<std::overflow_error>("std::overflow_error");
    add_standard<std::underflow_error>("std::underflow_error");
    add(typeid(RemoteError), typeid(RemoteError), "hymn::rpc::RemoteError",
        [](const std::string& text, const RemoteOrigin& origin) {
          return std::make_exception_ptr(RemoteError(text, origin));
        });
    add(typeid(std::bad_alloc), typeid(ThrownBadAlloc), "std::bad_alloc",
        [](const std::string& text, const RemoteOrigin& origin) {
          return std::make_exception_ptr(ThrownBadAlloc(origin, text));
        });
  }

  std::mutex mutex_;
  std::map<std::type_index, std::string> names_;
  std::map<std::string, MakeError> makers_;
};

std::string readable(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  return name ? name.get() : type.name();
}

void describe(ErrorWire& wire, const Error& error) {
  wire.text = error.problem();
  wire.kind = static_cast<std::uint8_t>(error.kind());
  const ErrorContext& context = error.context();
  wire.rank = context.rank;
  wire.group = context.group;
  wire.operation = context.operation;
  wire.remedy = context.remedy;
  wire.missing = context.missing;
  if (const auto* timeout = dynamic_cast<const TimeoutError*>(&error))
    wire.waited_ns = timeout->waited().count();
  if (const auto* backend = dynamic_cast<const BackendError*>(&error)) {
    wire.backend = backend->backend();
    wire.code = backend->code();
  }
}

void describe(ErrorWire& wire, const std::exception& error) {
  wire.text = error.what();
  // The type itself, or the nearest that is known.
  wire.type = ErrorTypes::instance().name_of(typeid(error));
  if (wire.type.empty()) {
    wire.type = readable(typeid(error));
    wire.text = fmt::format("{}: {}", wire.type, wire.text);
  }
}

/// What is being handled, and is no std::exception: of a type that nobody has registered.
void describe(ErrorWire& wire, std::string_view type, std::string_view text) {
  wire.type = type;
  wire.text = fmt::format("{}: {}", type, text);
}

ErrorWire described(const std::exception_ptr& error, const RemoteOrigin& here) {
  ErrorWire wire;
  const auto come_from = [&wire](const RemoteOrigin& origin) {
    wire.origin_rank = origin.rank();
    wire.worker = origin.worker();
    wire.function = origin.function();
    wire.site = origin.site();
  };
  come_from(here);
  const auto note = [&](const auto& thrown) {
    describe(wire, thrown);
    if (const auto* far = dynamic_cast<const RemoteOrigin*>(&thrown)) come_from(*far);
  };
  try {
    std::rethrow_exception(error);
  } catch (const Error& thrown) {
    note(thrown);
  } catch (const std::exception& thrown) {
    note(thrown);
  } catch (const std::string& text) {
    describe(wire, "std::string", text);
  } catch (const char* text) {
    describe(wire, "const char*", text);
  } catch (...) {
    const std::type_info* const type = abi::__cxa_current_exception_type();
    describe(wire, type == nullptr ? "an exception of another language" : readable(*type),
             "it is no std::exception, and has no text");
  }
  return wire;
}

void cut(std::string& text, std::size_t most) {
  if (text.size() <= most) return;
  const std::string mark = fmt::format(" […, {} bytes]", text.size());
  std::size_t kept = most - mark.size();
  // Not in the middle of a letter.
  while (kept > 0 && (static_cast<unsigned char>(text[kept]) & 0xc0) == 0x80) --kept;
  text.resize(kept);
  text += mark;
}

/// To most_error_bytes.
void cut(ErrorWire& wire) {
  cut(wire.text, most_error_bytes / 2);
  for (std::string* text : {&wire.type, &wire.group, &wire.operation, &wire.remedy, &wire.backend,
                            &wire.worker, &wire.function, &wire.site})
    cut(*text, most_error_bytes / 32);
  wire.missing.resize(std::min(wire.missing.size(), most_error_bytes / 8 / sizeof(int)));
}

ErrorContext context_of(const ErrorWire& wire) {
  ErrorContext context{.rank = wire.rank,
                       .group = wire.group,
                       .operation = wire.operation,
                       .remedy = wire.remedy,
                       .missing = wire.missing};
  if (context.rank < 0) context.rank = wire.origin_rank;
  if (context.operation.empty())
    context.operation = fmt::format("{} at {} ({})", wire.function, wire.worker, wire.site);
  return context;
}

std::exception_ptr hymn_error(const ErrorWire& wire, const RemoteOrigin& origin) {
  const ErrorContext context = context_of(wire);
  const auto made = [&]<class E>(std::type_identity<E>) {
    return std::make_exception_ptr(Thrown<E>(origin, wire.text, context));
  };
  switch (static_cast<ErrorKind>(wire.kind)) {
    case ErrorKind::usage:
      return made(std::type_identity<UsageError>());
    case ErrorKind::unsupported:
      return made(std::type_identity<UnsupportedError>());
    case ErrorKind::config:
      return made(std::type_identity<ConfigError>());
    case ErrorKind::timeout:
      return std::make_exception_ptr(
          Thrown<TimeoutError>(origin, wire.text, Duration(wire.waited_ns), context));
    case ErrorKind::aborted:
      return made(std::type_identity<AbortedError>());
    case ErrorKind::peer:
      return made(std::type_identity<PeerError>());
    case ErrorKind::network:
      return made(std::type_identity<NetworkError>());
    case ErrorKind::store:
      return made(std::type_identity<StoreError>());
    case ErrorKind::backend:
      return std::make_exception_ptr(
          Thrown<BackendError>(origin, wire.text, wire.backend, wire.code, context));
    case ErrorKind::resource:
      return made(std::type_identity<ResourceError>());
    case ErrorKind::internal:
      break;
  }
  return std::make_exception_ptr(Thrown<Error>(origin, ErrorKind::internal, wire.text, context));
}

}  // namespace

void add_error(const std::type_info& type, const std::type_info& thrown, std::string name,
               MakeError make) {
  ErrorTypes::instance().add(type, thrown, std::move(name), std::move(make));
}

Packed pack_error(const std::exception_ptr& error, const RemoteOrigin& here) {
  ErrorWire wire = described(error, here);
  cut(wire);
  return pack(wire);
}

std::exception_ptr unpack_error(Packed& packed) {
  ErrorWire wire;
  try {
    unpack(packed, wire);
  } catch (...) {
    return std::current_exception();
  }
  const RemoteOrigin origin(wire.origin_rank, wire.worker, wire.function, wire.site);
  if (wire.type.empty()) return hymn_error(wire, origin);
  // A text that has travelled before tells where it comes from already.
  const std::string mark = fmt::format(" [at {}, rank {}, in {} ({})]", wire.worker,
                                       wire.origin_rank, wire.function, wire.site);
  const std::string text = wire.text.ends_with(mark) ? wire.text : wire.text + mark;
  const MakeError make = ErrorTypes::instance().maker(wire.type);
  return make ? make(text, origin) : std::make_exception_ptr(RemoteError(text, origin));
}

}  // namespace detail
}  // namespace hymn::rpc
