#include "runtime/group/call_of_steps.hpp"

#include "base/error_context.hpp"

namespace hymn::detail {

CallOfSteps::CallOfSteps(const ProcessGroup& group, const char* name, Timeout timeout,
                         const void* site)
    : state_(need(group)), name_(name), timeout_(timeout), site_(site) {
  state_.works().scopes().require_none(name, state_.members());
}

ErrorContext CallOfSteps::context(std::string remedy) const {
  ErrorContext context = state_.members().context(name_);
  context.remedy = std::move(remedy);
  return context;
}

void CallOfSteps::give_up(std::exception_ptr error) const {
  error = with_context(error, context());
  if (!state_.health().is_aborted())
    state_.health().abort(state_.health().describe_failure(error, name_));
  state_.works().end_given_up();
  std::rethrow_exception(error);
}

}  // namespace hymn::detail
