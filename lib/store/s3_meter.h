/* s3_meter: what requests to S3 servers add to the families brrd_s3_… of a registry. A NULL registry takes nothing. Any thread. */
#ifndef BRR_STORE_S3_METER_H
#define BRR_STORE_S3_METER_H
#include "base/metrics.h"
#include "store/s3_client.h"
#include "store/s3_error.h"

/* The families that have one series, at 0. */
void s3_meter_open(struct metrics *m);
/* A try begins. Every one ends by s3_meter_end. */
void s3_meter_begin(struct metrics *m);
/* It was answered, has failed, or was given up. */
void s3_meter_end(struct metrics *m, const struct s3_call *call, bool given_up);
/* The call is asked once more; e is what the answer said, is_short that its body ended early. */
void s3_meter_retry(struct metrics *m, const struct s3_call *call, const struct s3_error *e, bool is_short);

#endif
