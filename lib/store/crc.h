/* crc: the checksums of whole objects that S3 servers keep (x-amz-checksum-…), of any pieces, some twenty times as quick as SHA-256
 * where the processor multiplies polynomials. Those of neighbouring pieces join into that of the whole. They find what ways, disks
 * and crashes do to data, not what an enemy does. One thread per crc. Parameters: the catalogue of CRC algorithms' CRC-64/NVME,
 * CRC-32/ISCSI and CRC-32/ISO-HDLC. */
#ifndef BRR_STORE_CRC_H
#define BRR_STORE_CRC_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum crc_kind { CRC_64_NVME, CRC_32C, CRC_32, CRC_KINDS };

struct crc;
/* plain: without the processor's help. NULL when out of memory. */
struct crc *crc_new(enum crc_kind kind, bool plain);
void crc_update(struct crc *c, const void *data, size_t len);
/* Of all that was fed, and free c. */
uint64_t crc_finish(struct crc *c);
/* Of two pieces: first has the sum a, the second, of b_len bytes, has b. The sum of nothing is 0. */
uint64_t crc_join(enum crc_kind kind, uint64_t a, uint64_t b, uint64_t b_len);
int crc_bits(enum crc_kind kind);
const char *crc_name(enum crc_kind kind); /* for people */

#endif
