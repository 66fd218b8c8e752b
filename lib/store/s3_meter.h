/* s3_meter: counts requests to S3 servers in the metric families brrd_s3_… of a registry. A NULL registry is ignored. Any thread.
 */
#pragma once
#include "base/metrics.h"
#include "store/s3_client.h"
#include "store/s3_error.h"

/* Creates the families that have one series, at 0. */
void s3_meter_open(struct metrics *m);
/* An attempt begins. Each needs one s3_meter_end. */
void s3_meter_begin(struct metrics *m);
/* The attempt was answered, failed, or was cancelled. */
void s3_meter_end(struct metrics *m, const struct s3_call *call, bool given_up);
/* The call is retried; e is the interpreted answer, is_short means that its body ended early. */
void s3_meter_retry(struct metrics *m, const struct s3_call *call, const struct s3_error *e, bool is_short);
