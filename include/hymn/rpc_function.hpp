// Functions that other workers may call, known by their names and types.
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>
#include <tuple>
#include <typeinfo>
#include <utility>
#include <vector>

#include "hymn/error.hpp"
#include "hymn/future.hpp"
#include "hymn/object_format.hpp"
#include "hymn/rpc_buffer.hpp"
#include "hymn/standard_parts.hpp"

namespace hymn::rpc {

namespace detail {

/// Types of results and arguments: what both ends of a call must agree on.
struct HYMN_API Signature {
  std::vector<const std::type_info*> types{};  ///< the result first

  /// The same in all programs of one compiler's kind.
  std::uint64_t number() const;
  /// "double (int, std::string)"
  std::string text() const;
};

template <class R, class... Args>
Signature signature_of() {
  return {{&typeid(R), &typeid(Args)...}};
}

/// The result of a function that returns nothing.
struct Nothing {
  static auto object_fields(auto&) { return std::tie(); }
};

/// What a worker keeps for who has a reference to it.
struct StoredValue {
  std::shared_ptr<void> value{};
  const std::type_info* type = nullptr;
  std::function<Packed()> pack{};  ///< empty for a type that cannot be sent
};

/// How a call is answered, once; what is dropped without an answer is one that failed.
class HYMN_API Answer : public std::enable_shared_from_this<Answer> {
 public:
  virtual ~Answer();
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;
  /// Whether the result stays here, for keep(), or is sent, by give().
  virtual bool keeps_value() const = 0;
  virtual void give(Packed result) = 0;
  virtual void keep(StoredValue result) = 0;
  virtual void fail(std::exception_ptr error) = 0;

 protected:
  Answer() = default;
};
using AnswerPtr = std::shared_ptr<Answer>;

/// Unpacks the arguments, calls the function, and answers.
using Handler = std::function<void(Packed& arguments, const AnswerPtr& answer)>;

HYMN_API void add_function(std::string name, Signature signature, Handler handler,
                           const std::source_location& where);
/// Throws UsageError where this program has registered `name` with other types.
HYMN_API void check_function(std::string_view name, const Signature& signature);

template <class T>
inline constexpr bool is_future = false;
template <class T>
inline constexpr bool is_future<Future<T>> = true;

template <class T>
struct ResultOf {
  using type = T;
};
template <class T>
struct ResultOf<Future<T>> {
  using type = T;
};

template <class T>
StoredValue stored(T value) {
  auto kept = std::make_shared<T>(std::move(value));
  StoredValue result{kept, &typeid(T), {}};
  if constexpr (Object<T>) result.pack = [kept] { return rpc::detail::pack(*kept); };
  return result;
}

template <class R>
void give_result(const AnswerPtr& answer, R result) {
  if (answer->keeps_value())
    answer->keep(stored(std::move(result)));
  else if constexpr (Object<R>)
    answer->give(pack(result));
  else
    answer->fail(std::make_exception_ptr(UsageError("the result of this function cannot be sent",
                                                    {.remedy = "call it by remote()"})));
}

template <class R>
void answer_when_ready(const Future<R>& future, const AnswerPtr& answer) {
  future.on_ready([future, answer] {
    try {
      if constexpr (std::is_void_v<R>) {
        future.get();
        give_result(answer, Nothing{});
      } else {
        give_result<R>(answer, future.get());
      }
    } catch (...) {
      answer->fail(std::current_exception());
    }
  });
}

template <class R, class Function, class Tuple>
void run_function(Function& function, Tuple& arguments, const AnswerPtr& answer) {
  if constexpr (is_future<R>) {
    answer_when_ready(std::apply(function, std::move(arguments)), answer);
  } else if constexpr (std::is_void_v<R>) {
    std::apply(function, std::move(arguments));
    give_result(answer, Nothing{});
  } else {
    give_result<R>(answer, std::apply(function, std::move(arguments)));
  }
}

}  // namespace detail

template <class Signature>
class Function;

/// A function of that name at any worker: what calls are made with. A value.
template <class R, class... Args>
class Function<R(Args...)> {
 public:
  using Result = R;

  /// One that other workers have registered, whether or not this one has.
  explicit Function(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }
  static detail::Signature signature() { return detail::signature_of<R, Args...>(); }

 private:
  std::string name_;
};

namespace detail {

template <class F>
struct Callable : Callable<decltype(&F::operator())> {};
template <class R, class... Args>
struct Callable<R (*)(Args...)> {
  using Result = R;
  using Sent = Function<typename ResultOf<std::decay_t<R>>::type(std::decay_t<Args>...)>;
  using Tuple = std::tuple<std::decay_t<Args>...>;
};
template <class C, class R, class... Args>
struct Callable<R (C::*)(Args...) const> : Callable<R (*)(Args...)> {};
template <class C, class R, class... Args>
struct Callable<R (C::*)(Args...)> : Callable<R (*)(Args...)> {};

}  // namespace detail

/// Lets other workers call `function`, a function or a lambda, by that name; all agents of this
/// process serve it, those that are there already, too. Its arguments and result are values that
/// can be sent (docs/objects.md). It may return a Future: the call is then answered when that is
/// ready, and no thread waits meanwhile. Throws UsageError where the name is taken. Thread-safe;
/// calls may run at the same time.
template <class F>
auto register_function(std::string name, F function,
                       const std::source_location& where = std::source_location::current()) {
  using Known = detail::Callable<std::decay_t<F>>;
  using Sent = typename Known::Sent;
  detail::add_function(
      name, Sent::signature(),
      [function = std::move(function)](detail::Packed& packed,
                                       const detail::AnswerPtr& answer) mutable {
        typename Known::Tuple arguments;
        std::apply([&](auto&... each) { rpc::detail::unpack(packed, each...); }, arguments);
        detail::run_function<std::decay_t<typename Known::Result>>(function, arguments, answer);
      },
      where);
  return Sent(std::move(name));
}

}  // namespace hymn::rpc
