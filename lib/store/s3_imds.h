/* s3_imds: temporary credentials of a virtual machine's role, from its host's metadata service (version 2: a session token first).
 * Blocks for a few seconds at most; any thread. */
#pragma once
#include "store/s3_credentials.h"

/* tries: attempts when the service does not answer within a second. The address is AWS_EC2_METADATA_SERVICE_ENDPOINT, else
 * http://169.254.169.254; no proxy is used. UNAUTHENTICATED: no answer, the machine has no role, or AWS_EC2_METADATA_DISABLED is
 * "true"; DATA_LOSS: a malformed answer. */
int s3_imds_load(int tries, struct s3_credentials *ret, struct err *err);
