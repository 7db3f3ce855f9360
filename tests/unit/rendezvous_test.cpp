// Where ranks meet, by the variables of their launchers.
#include "control/rendezvous.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "hymn/error.hpp"

namespace hymn::control {
namespace {

using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Rendezvous read(const Variables& variables, const std::vector<std::string>& settings = {}) {
  return read_rendezvous(Config::parse(settings), [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string error_of(const Variables& variables, const std::vector<std::string>& settings = {}) {
  try {
    read(variables, settings);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

void expect_place(const Rendezvous& where, const std::string& host, int port, bool serves) {
  EXPECT_EQ(where.host, host);
  EXPECT_EQ(where.port, port);
  EXPECT_EQ(where.serves, serves);
}

TEST(Rendezvous, OfTorchrun) {
  Variables variables = {
      {"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29500"}};
  const Rendezvous other = read(variables);
  EXPECT_EQ(other.rank, 3);
  EXPECT_EQ(other.size, 8);
  expect_place(other, "10.0.0.1", 29500, false);
  variables["RANK"] = "0";
  expect_place(read(variables), "10.0.0.1", 29500, true);
  // Its own store is there.
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  expect_place(read(variables), "10.0.0.1", 29501, true);
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  expect_place(read(variables), "10.0.0.1", 29500, true);
}

TEST(Rendezvous, OfALauncherThatKeepsTheStore) {
  const Variables variables = {{"RANK", "0"}, {"WORLD_SIZE", "2"}};
  expect_place(read(variables, {"HYMN_STORE=127.0.0.1:4711"}), "127.0.0.1", 4711, false);
  expect_place(read(variables, {"HYMN_STORE=[::1]:80"}), "::1", 80, false);
  expect_place(read(variables, {"HYMN_STORE=node7:65535"}), "node7", 65535, false);
  for (const char* wrong : {"host", ":80", "host:", "host:0", "host:65536", "host:x", "host:80x"})
    EXPECT_THAT(error_of(variables, {std::string("HYMN_STORE=") + wrong}),
                HasSubstr("HYMN_STORE='"))
        << wrong;
}

TEST(Rendezvous, OfAStepOfSlurm) {
  Variables variables = {{"SLURM_PROCID", "0"},
                         {"SLURM_STEP_NUM_TASKS", "4"},
                         {"SLURM_STEP_NODELIST", "node[08-11,20],login"},
                         {"SLURM_JOB_ID", "17"},
                         {"SLURM_STEP_ID", "2"}};
  expect_place(read(variables), "node08", 20'000 + 17 * 31 + 2, true);
  variables["SLURM_PROCID"] = "3";
  const Rendezvous last = read(variables);
  EXPECT_EQ(last.rank, 3);
  EXPECT_EQ(last.size, 4);
  expect_place(last, "node08", 20'000 + 17 * 31 + 2, false);
  variables["SLURM_JOB_ID"] = "4294967295";
  EXPECT_LT(read(variables).port, 32'768);
  EXPECT_GE(read(variables).port, 20'000);
  variables["MASTER_ADDR"] = "10.1.1.1";
  variables["MASTER_PORT"] = "5000";
  expect_place(read(variables), "10.1.1.1", 5000, false);
}

TEST(Rendezvous, FirstOfAListOfHosts) {
  EXPECT_EQ(first_host("a"), "a");
  EXPECT_EQ(first_host("a,b[1-3]"), "a");
  EXPECT_EQ(first_host("n[3,5-7]"), "n3");
  EXPECT_EQ(first_host("n[05-07],m"), "n05");
  EXPECT_EQ(first_host("n[9]"), "n9");
  EXPECT_EQ(first_host(""), "");
}

TEST(Rendezvous, ARankAloneNeedsNoPlace) {
  expect_place(read({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), "", 0, false);
}

TEST(Rendezvous, AtTheLoopbackAllAreOnOneHost) {
  for (const char* host : {"localhost", "127.0.0.1", "127.1.2.3", "::1"})
    EXPECT_TRUE(Rendezvous{.host = host}.is_on_one_host()) << host;
  for (const char* host : {"node7", "10.0.0.1", "fe80::1", ""})
    EXPECT_FALSE(Rendezvous{.host = host}.is_on_one_host()) << host;
}

TEST(Rendezvous, WhatIsMissingOrMalformedIsTold) {
  EXPECT_THAT(error_of({}), HasSubstr("no launcher has set WORLD_SIZE"));
  EXPECT_THAT(error_of({}), HasSubstr("hymn run"));
  EXPECT_THAT(error_of({{"WORLD_SIZE", "2"}}), HasSubstr("no launcher has set RANK"));
  const auto with = [](const char* name, const char* value) {
    Variables variables = {
        {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29500"}};
    variables[name] = value;
    return error_of(variables);
  };
  EXPECT_THAT(with("RANK", "2"), HasSubstr("RANK='2' is not valid"));
  EXPECT_THAT(with("RANK", "2"), HasSubstr("0 to 1"));
  EXPECT_THAT(with("RANK", "-1"), HasSubstr("RANK='-1'"));
  EXPECT_THAT(with("WORLD_SIZE", "two"), HasSubstr("WORLD_SIZE='two'"));
  EXPECT_THAT(with("WORLD_SIZE", "0"), HasSubstr("WORLD_SIZE='0'"));
  EXPECT_THAT(with("MASTER_PORT", "0"), HasSubstr("MASTER_PORT='0'"));
  EXPECT_THAT(with("MASTER_PORT", "99999"), HasSubstr("MASTER_PORT='99999'"));
  EXPECT_THAT(error_of({{"RANK", "1"}, {"WORLD_SIZE", "2"}}), HasSubstr("MASTER_ADDR"));
  EXPECT_THAT(error_of({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}),
              HasSubstr("MASTER_PORT"));
}

}  // namespace
}  // namespace hymn::control
