/* audit: which lines the audit log gets. A caller has an allowance of lines for each method and one for all methods, which grow
 * back slowly; lines beyond are counted, and their number is logged every AUDIT_SAY_MS. So no caller can fill a disk, or hide what
 * others do, with calls. Any thread. */
#pragma once
#include "base/base.h"

/* Allowances, and what grows back in a second; of the same reading of a patient's data, one line in AUDIT_READING_MS. */
enum { AUDIT_OF_METHOD = 2000, AUDIT_OF_CALLER = 4000, AUDIT_METHOD_S = 1, AUDIT_CALLER_S = 4 };
enum { AUDIT_SAY_MS = 10 * 1000, AUDIT_READING_MS = 3600 * 1000 };

struct audit;
struct audit *audit_new(void); /* NULL when out of memory */
void audit_free(struct audit *a);
/* True if this line may be written; else it is counted. id: what is read, of a call that reads a patient's data; NULL: another
 * call. Readings again of the same id are not counted. */
bool audit_allows(struct audit *a, const char *principal, const char *method, const char *id, int64_t now_ms);
/* Logs how many lines were left out, for each caller and method at most every AUDIT_SAY_MS. Once a second. */
void audit_tick(struct audit *a, int64_t now_ms);
