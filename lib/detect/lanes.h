/* detect/lanes: windows of a batch side by side on the CPU, each computed by one thread with a network of its own
 * (kernels/lanes.h). For a device that serves streams beside sockets and clients. One thread at a time, always the same one. */
#pragma once
#include "detect/model_image.h"

struct infer_lanes;
/* n lanes, each with the weights of the image. */
int infer_lanes_open(const struct model_image *image, int n, struct infer_lanes **ret, struct err *err);
void infer_lanes_close(struct infer_lanes *l); /* NULL is fine */
int64_t infer_lanes_bytes(const struct seizure_config *model, enum dtype precision, int n);
/* Probabilities p (rows,T) of the windows x (rows,T,C). */
int infer_lanes_run(struct infer_lanes *l, const float *x, float *p, int rows, struct err *err);
