// How blocks of the picture are put together: rows, columns, badges.
#pragma once

#include <vector>

#include "tools/topo/layout.hpp"

namespace hymn {

void move_by(Block& block, double dx, double dy);

/// How many columns a grid of `count` gets: near `ideal`, without a ragged last row if possible.
std::size_t columns_for(std::size_t count, double ideal);

/// Puts the blocks row by row into columns of one width, stretched to fill their cells. Returns
/// the whole grid's box.
Box put_in_grid(std::vector<Block>& blocks, std::size_t columns, double gap, Point corner);

/// Blocks of one size, in a grid.
struct Section {
  std::vector<Block> blocks;
  std::size_t columns = 0;  ///< 0: as many as fit beside each other under the widest section
  double gap = 0;
};
/// The width that each of `columns` boxes beside each other may take in a block of that width.
double room_in(BlockKind parent, double width, std::size_t columns, double gap);
/// Puts the sections one below the other into the block, and makes it as large as they and its
/// label need. Boxes are widened to fill it; cores and badges keep their size.
void stack_sections(Block& block, std::vector<Section> sections, double least_width = 0);

/// Badges with the numbers of some of the ranks; the last one counts what is too many.
Section rank_badges(const std::vector<RankPlace>& places, const std::vector<std::size_t>& which,
                    std::size_t most);
/// Cuts the list to `most`, the last one of which then says how many more there are.
void limit_to(std::vector<Block>& blocks, std::size_t most, std::string_view noun);

/// The colour of a rank: neighbours on a host get different ones.
int tone_of(const RankPlace& place);
/// "rank 3: CPUs 0-3, GPU 0"
std::string tip_of(const RankPlace& place);

}  // namespace hymn
