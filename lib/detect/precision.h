/* precision: how far a network in bf16 is from the same weights in fp32: logits of both over windows that depend on the model's
 * shape alone, noise with a rhythm in its second half. The greatest difference that a model allows is in its file
 * (modelfile.bf16_bound). The device's thread. */
#pragma once
#include "detect/model_image.h"

struct device;
struct stream;
/* The greatest difference of two logits, NaN where one is not a number. */
double precision_difference(const float *a, const float *b, int64_t n);
/* The image's network in bf16 against fp32. PRECONDITION: they differ by more than the file allows. */
int precision_check(struct device *dev, const struct model_image *image, struct stream *s, double *ret_difference, struct err *err);
