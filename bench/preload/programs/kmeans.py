"""k-means over points of all ranks, with mpi4py: arrays reduced in place, and objects that travel by pickle."""
import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
clusters, dimensions, points, rounds = 16, 8, 240000 // size, 40

generator = numpy.random.default_rng(rank)
places = comm.bcast(numpy.random.default_rng(99).normal(0, 4, (clusters, dimensions)) if rank == 0 else None)
data = places[generator.integers(0, clusters, points)] + generator.normal(0, 1, (points, dimensions))
centers = comm.bcast(data[:clusters].copy() if rank == 0 else None)

sums = numpy.zeros((clusters, dimensions + 1))
for _ in range(rounds):
    distances = ((data**2).sum(1)[:, None] - 2 * data @ centers.T + (centers**2).sum(1)[None, :])
    nearest = distances.argmin(1)
    for cluster in range(clusters):
        mine = data[nearest == cluster]
        sums[cluster, :-1], sums[cluster, -1] = mine.sum(0), len(mine)
    comm.Allreduce(MPI.IN_PLACE, sums, op=MPI.SUM)
    centers = sums[:, :-1] / numpy.maximum(sums[:, -1:], 1)

sizes = comm.gather({cluster: int((nearest == cluster).sum()) for cluster in range(clusters)})
spread = comm.allreduce(float(distances.min(1).sum()))
if rank == 0:
    for cluster in range(clusters):
        print(f"cluster {cluster}: {sum(one[cluster] for one in sizes)} points near {centers[cluster, 0]:.6f}")
    print(f"spread {spread:.2f}")
