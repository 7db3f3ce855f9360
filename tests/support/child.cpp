#include "tests/support/child.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <exception>
#include <stdexcept>

namespace hymn::test {
namespace {

[[noreturn]] void run_child(const std::function<std::string()>& body, int pipe) {
  std::string report;
  try {
    report = body();
  } catch (const std::exception& error) {
    report = error.what();
  }
  const ssize_t written = write(pipe, report.data(), report.size());
  _exit(written == static_cast<ssize_t>(report.size()) ? 0 : 1);
}

}  // namespace

Child::Child(const std::function<std::string()>& body) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("no process");
  if (pid_ == 0) {
    close(ends[0]);
    run_child(body, ends[1]);
  }
  close(ends[1]);
  pipe_ = ends[0];
}

Child::~Child() {
  kill();
  close(pipe_);
}

std::string Child::report() {
  if (ended_) return report_;
  std::array<char, 4096> text{};
  for (ssize_t got = 0; (got = read(pipe_, text.data(), text.size())) > 0;)
    report_.append(text.data(), static_cast<std::size_t>(got));
  int status = 0;
  waitpid(pid_, &status, 0);
  ended_ = true;
  if (WIFSIGNALED(status)) report_ += fmt::format("killed by signal {}", WTERMSIG(status));
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
    report_ += fmt::format("ended with status {}", WEXITSTATUS(status));
  return report_;
}

void Child::kill() {
  if (ended_) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  ended_ = true;
}

Wire::Wire() {
  if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends_) != 0)
    throw std::runtime_error("no pair of sockets");
}

Wire::~Wire() {
  for (const int end : ends_) close(end);
}

void Wire::send(const std::string& word) const {
  if (::send(ends_[0], word.data(), word.size(), 0) < 0) throw std::runtime_error("not sent");
}

std::string Wire::receive() const {
  pollfd wait_for{ends_[1], POLLIN, 0};
  if (poll(&wait_for, 1, 20'000) <= 0) throw std::runtime_error("nothing came within 20 s");
  std::array<char, 4096> word{};
  const ssize_t got = recv(ends_[1], word.data(), word.size(), 0);
  if (got < 0) throw std::runtime_error("not received");
  return {word.data(), static_cast<std::size_t>(got)};
}

}  // namespace hymn::test
