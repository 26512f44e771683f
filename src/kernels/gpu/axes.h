/// Numbers of axes as a kernel's parameters. A kernel with RANK axes has parameters AXES, which are
/// passed list by list, and begins with the lists:
///
///   KERNEL NAME(MEMORY(0), AXES) { LISTS .. n[2] .. }
#pragma once

#include <string_view>
#include <vector>

#include "kernels/gpu/gpu_kernel.h"

namespace tandem::kernels::gpu {

/// Adds RANK, AXES and LISTS for lists of these names, of one number for each axis.
void add_axes(Words& words, size_t rank, const std::vector<std::string_view>& lists);

/// A rank for which there is a text, at least `rank`: few texts serve all.
size_t text_rank(size_t rank);

}  // namespace tandem::kernels::gpu
