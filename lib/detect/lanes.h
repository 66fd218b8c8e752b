/* detect/lanes: rows of a batch side by side on the CPU, a few at once on a thread with its own network (kernels/lanes.h).
 * For a device that serves streams beside sockets and clients, and for networks whose ops are too small for several threads. One
 * thread at a time, always the same one. */
#pragma once
#include "detect/model_image.h"

struct infer_lanes;
/* n lanes, each with the weights of the image, that compute up to `rows` rows at once. One is the calling thread's. */
int infer_lanes_open(const struct model_image *image, int n, int rows, struct infer_lanes **ret, struct err *err);
void infer_lanes_close(struct infer_lanes *l); /* NULL is fine */
int64_t infer_lanes_bytes(const struct seizure_config *model, enum dtype precision, int n, int rows);
/* Rows of a pass, T = model_pass_samples: probabilities p (n,T) of x (n,T,C), and the states (n,seizure_state_count) of a network
 * that carries some, which are replaced. */
struct lane_rows {
    const float *x;
    float *state, *p;
    int n;
};
/* In the turn of stream s. */
int infer_lanes_run(struct infer_lanes *l, struct stream *s, const struct lane_rows *rows, struct err *err);
