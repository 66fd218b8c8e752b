/* crc: the checksums of whole objects that S3 servers keep (x-amz-checksum-…), computed over pieces of any size, about twenty times
 * as fast as SHA-256 on processors with carry-less multiplication. The checksums of neighbouring pieces combine into the checksum
 * of the whole. They detect accidental corruption in transit or on disk; they are no protection against tampering. One thread per
 * crc. Parameters: CRC-64/NVME, CRC-32/ISCSI and CRC-32/ISO-HDLC of the catalogue of CRC algorithms. */
#pragma once
#include "base/base.h"

enum crc_kind { CRC_64_NVME, CRC_32C, CRC_32, CRC_KINDS };

struct crc;
/* plain: tables instead of the processor's instructions. NULL when out of memory. */
struct crc *crc_new(enum crc_kind kind, bool plain);
void crc_update(struct crc *c, const void *data, size_t len);
/* Returns the checksum of all bytes fed and frees c. */
uint64_t crc_finish(struct crc *c);
/* Returns the checksum of two joined pieces: a of the first, b of the second, which has b_len bytes. An empty piece has checksum 0.
 */
uint64_t crc_join(enum crc_kind kind, uint64_t a, uint64_t b, uint64_t b_len);
int crc_bits(enum crc_kind kind);
const char *crc_name(enum crc_kind kind); /* for messages */
