/* ssd_chunks_starts: sums of a·Δ in each chunk of a head, and the states at the starts of chunks. Internal to kernels/cuda. */
#pragma once
#include "kernels/cuda/scan/scan_job.cuh"

/* Fills the chunk_starts of the job's rows. */
void ssd_chunks_starts_launch(struct stream *s, const struct scan_job *j);
