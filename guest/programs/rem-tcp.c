// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * rem-tcp: a connection to a peer outside that goes on sending.
 *
 * --peer HOST:PORT (lab/clients/peer.py). Both sides send numbered, checksummed
 * frames without waiting for each other; each checks that it gets every frame
 * of the other once and in order. The last frame of each side, of length 0,
 * has as its number how many came before it.
 *
 * Frame: u32 bytes of payload, u32 CRC-32 of payload, u64 number, payload;
 * little-endian.
 */
#include "check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAYLOAD_MAX_BYTES 1400
/* Between bursts: the peer, in Python, must keep up. */
#define BURST_FRAMES 16
#define PAUSE_NS (2 * NS_PER_MS)

struct frame {
	uint32_t bytes;
	uint32_t crc;
	uint64_t number;
	uint8_t payload[PAYLOAD_MAX_BYTES];
};

#define HEADER_BYTES offsetof(struct frame, payload)

static int peer_fd;
static atomic_ullong sent;
static atomic_ullong received;
static atomic_bool stopping;

static void *send_frames(void *arg)
{
	struct frame frame;
	uint64_t number = 0;

	(void)arg;
	while (!atomic_load(&stopping)) {
		frame.number = number;
		frame.bytes =
			(uint32_t)(1 + check_mix(number) % PAYLOAD_MAX_BYTES);
		check_fill(frame.payload, frame.bytes, number);
		frame.crc = check_crc32(frame.payload, frame.bytes);
		check_write(peer_fd, &frame, HEADER_BYTES + frame.bytes);
		atomic_store(&sent, ++number);
		if (number % BURST_FRAMES == 0)
			check_sleep_ns(PAUSE_NS);
	}
	frame.number = number;
	frame.bytes = 0;
	frame.crc = 0;
	check_write(peer_fd, &frame, HEADER_BYTES);
	return NULL;
}

static void *receive_frames(void *arg)
{
	struct frame frame;
	uint64_t expected = 0;

	(void)arg;
	for (;;) {
		if (!check_read(peer_fd, &frame, HEADER_BYTES))
			check_fail("the peer closed the connection");
		if (frame.number != expected)
			check_fail("frame %llu, expected %llu",
				   (unsigned long long)frame.number,
				   (unsigned long long)expected);
		if (!frame.bytes)
			return NULL;
		if (frame.bytes > PAYLOAD_MAX_BYTES)
			check_fail("frame of %u bytes", frame.bytes);
		if (!check_read(peer_fd, frame.payload, frame.bytes))
			check_fail("the peer closed inside a frame");
		if (check_crc32(frame.payload, frame.bytes) != frame.crc)
			check_fail("frame %llu is damaged",
				   (unsigned long long)expected);
		atomic_store(&received, ++expected);
	}
}

static void connect_peer(const char *where)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	const char *colon = strrchr(where, ':');
	char host[64] = "";
	int one = 1;

	if (!colon || (size_t)(colon - where) >= sizeof(host))
		check_fail("--peer %s is not HOST:PORT", where);
	memcpy(host, where, (size_t)(colon - where));
	address.sin_port = htons((uint16_t)atoi(colon + 1));
	if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
		check_fail("--peer %s: %s is not an IPv4 address", where, host);
	peer_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (peer_fd < 0 ||
	    connect(peer_fd, (struct sockaddr *)&address, sizeof(address)))
		check_fail_errno(where);
	setsockopt(peer_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

int main(int argc, char **argv)
{
	static const char *const extra[] = { "peer", NULL };
	unsigned long sender, receiver;

	check_begin(argc, argv, extra);
	connect_peer(check_option("peer", "10.77.0.1:7700"));
	sender = check_thread(send_frames, NULL);
	receiver = check_thread(receive_frames, NULL);
	do {
		check_sleep_ns(20 * NS_PER_MS);
		if (check_asked())
			check_at("sent=%llu received=%llu", atomic_load(&sent),
				 atomic_load(&received));
	} while (check_go_on(atomic_load(&received)));
	atomic_store(&stopping, true);
	check_join(sender);
	/* The peer answers our last frame with its own. */
	check_join(receiver);
	return check_ok("sent=%llu received=%llu", atomic_load(&sent),
			atomic_load(&received));
}
