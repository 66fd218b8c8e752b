/* audit: which lines the audit log gets. A line is written unless its caller has written too many of the same method, or of all
 * methods, in the last ten seconds; lines that were left out are counted, and their number is logged when the ten seconds are over.
 * So no caller can fill a disk, or hide what others do, with calls. Any thread. */
#ifndef BRR_DAEMON_RPC_AUDIT_H
#define BRR_DAEMON_RPC_AUDIT_H
#include <stdbool.h>
#include <stdint.h>

/* Lines in AUDIT_WINDOW_MS; of the same reading of a patient's data, one in AUDIT_READING_MS. */
enum { AUDIT_WINDOW_MS = 10 * 1000, AUDIT_OF_METHOD = 50, AUDIT_OF_CALLER = 200, AUDIT_READING_MS = 3600 * 1000 };

struct audit;
struct audit *audit_new(void); /* NULL when out of memory */
void audit_free(struct audit *a);
/* True if this line may be written; else it is counted. id: what is read, of a call that reads a patient's data; NULL: another
 * call. Readings again of the same id are not counted. */
bool audit_allows(struct audit *a, const char *principal, const char *method, const char *id, int64_t now_ms);
/* Logs how many lines were left out in the windows that are over. Once a second. */
void audit_tick(struct audit *a, int64_t now_ms);

#endif
