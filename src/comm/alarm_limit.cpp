// Signal handlers; their state is set before a signal can arrive.
#include "comm/alarm_limit.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>

namespace trireme {
namespace {

char last_line[640];  // preformatted: a signal handler cannot format text
volatile std::sig_atomic_t code = 0;

void print_and_end(int) {
  (void)!::write(STDERR_FILENO, last_line, std::strlen(last_line));
  ::_exit(code);
}

void just_end(int) {
  ::_exit(code);
}

void handle(int signal, void (*handler)(int), struct sigaction* before) {
  struct sigaction action {};
  action.sa_handler = handler;
  ::sigaction(signal, &action, before);
}

}  // namespace

AlarmLimit::AlarmLimit(double seconds, const std::string& message, int exit_code) {
  std::strncpy(last_line, message.c_str(), sizeof last_line - 1);
  code = exit_code;
  handle(SIGALRM, print_and_end, &alarm_before_);
  ::alarm(static_cast<unsigned>(std::ceil(std::clamp(seconds, 1.0, 1e6))));
}

AlarmLimit::~AlarmLimit() {
  ::alarm(0);
  ::sigaction(SIGALRM, &alarm_before_, nullptr);
  if (hears_sigterm_) ::sigaction(SIGTERM, &term_before_, nullptr);
}

void AlarmLimit::end_at_once_on_sigterm() {
  hears_sigterm_ = true;
  handle(SIGTERM, just_end, &term_before_);
}

}  // namespace trireme
