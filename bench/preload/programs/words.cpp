// Counts words by Boost.MPI: maps of strings that are merged by all_reduce, and gathered.
#include <boost/mpi.hpp>
#include <boost/serialization/map.hpp>
#include <boost/serialization/string.hpp>
#include <iostream>
#include <map>
#include <string>
#include <vector>

using Counts = std::map<std::string, long>;

struct Merge {
  Counts operator()(const Counts& a, const Counts& b) const {
    Counts merged = a;
    for (const auto& [word, count] : b) merged[word] += count;
    return merged;
  }
};

int main(int argc, char** argv) {
  boost::mpi::environment environment(argc, argv);
  boost::mpi::communicator world;
  Counts total;
  for (int round = 0; round < 300; ++round) {
    Counts own;
    unsigned seed = static_cast<unsigned>(world.rank() * 1000 + round);
    for (int i = 0; i < 400; ++i) {
      seed = seed * 1664525u + 1013904223u;
      ++own["word" + std::to_string(seed >> 26)];
    }
    const Counts all = boost::mpi::all_reduce(world, own, Merge());
    for (const auto& [word, count] : all) total[word] += count;
    const long most =
        boost::mpi::all_reduce(world, own.begin()->second, boost::mpi::maximum<long>());
    std::vector<long> each;
    boost::mpi::all_gather(world, most, each);
    boost::mpi::broadcast(world, total, round % world.size());
  }
  if (world.rank() == 0)
    for (const auto& [word, count] : total) std::cout << word << ' ' << count << '\n';
}
