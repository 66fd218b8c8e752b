/* device_rates: the rates of a device (kernels/rates.h), measured on a stream's thread. */
#pragma once
#include "base/err.h"
#include "kernels/rates.h"

struct stream;
/* Takes about a second. */
int rates_measure(struct stream *s, struct rates *ret, struct err *err);
