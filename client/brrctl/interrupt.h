/* interrupt: Ctrl-C and SIGTERM as a wish to end, for commands that must clean up. The first signal is noted, the next one kills.
 * One use per process. */
#ifndef BRR_CLIENT_BRRCTL_INTERRUPT_H
#define BRR_CLIENT_BRRCTL_INTERRUPT_H
#include <stdbool.h>

void interrupt_catch(void);
bool interrupt_seen(void);

#endif
