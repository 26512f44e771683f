// MPI_Allreduce of two processes, as tandem-bench's mw_allreduce does it: the median of each size.
// usage: mpirun -np 2 openmpi_allreduce
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <vector>

namespace {

double median_us(int count, int calls) {
  std::vector<float> values(static_cast<size_t>(count), 1.0f);
  std::vector<double> times;
  for (int i = 0; i < calls + calls / 10 + 2; ++i) {
    const double start = MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, values.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    times.push_back((MPI_Wtime() - start) * 1e6);
    values[0] = 1.0f;
  }
  times.erase(times.begin(), times.begin() + calls / 10 + 2);
  std::nth_element(times.begin(), times.begin() + calls / 2, times.end());
  return times[static_cast<size_t>(calls / 2)];
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const double small = median_us(2560, 20000);
  const double large = median_us(33000000 / 4, 40);
  if (rank == 0) {
    std::printf("10KB\t%.9g\tus\n", small);
    std::printf("33MB\t%.9g\tus\n", large);
  }
  MPI_Finalize();
  return 0;
}
