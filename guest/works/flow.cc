// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * mcf's class: which vehicle of a depot makes which trips of a day, as a flow
 * of least cost, by LEMON's network simplex.
 *
 * Each trip is made once; after it a vehicle may make some later ones, or
 * return. Checked: the flow is one, and of least cost, by the potentials of
 * the nodes: an arc that would pay is full, one that would not is empty.
 */
#include "works.h"

#include <lemon/network_simplex.h>
#include <lemon/smart_graph.h>

#include <vector>

using lemon::SmartDigraph;
using Simplex = lemon::NetworkSimplex<SmartDigraph, long, long>;

namespace
{

constexpr long DAY_MINUTES = 1440;
constexpr long VEHICLE_COST = 100000;
constexpr uint64_t PLACES = 1000;

struct Trip {
	long begin, end, from, to;
	SmartDigraph::Node before, after;
};

struct Problem {
	SmartDigraph graph;
	SmartDigraph::ArcMap<long> lower{ graph };
	SmartDigraph::ArcMap<long> upper{ graph };
	SmartDigraph::ArcMap<long> cost{ graph };
	std::vector<Trip> trips;

	/* For one vehicle; @least: for one at least. */
	void arc(SmartDigraph::Node from, SmartDigraph::Node to, long price,
		 long least = 0)
	{
		SmartDigraph::Arc made = graph.addArc(from, to);

		lower[made] = least;
		upper[made] = 1;
		cost[made] = price;
	}
};

void make_trips(Problem &problem, long count, uint64_t *state)
{
	problem.trips.resize(static_cast<size_t>(count));
	for (Trip &trip : problem.trips) {
		trip.begin =
			static_cast<long>(works_random(state, DAY_MINUTES));
		trip.end = trip.begin + 10 +
			   static_cast<long>(works_random(state, 60));
		trip.from = static_cast<long>(works_random(state, PLACES));
		trip.to = static_cast<long>(works_random(state, PLACES));
		trip.before = problem.graph.addNode();
		trip.after = problem.graph.addNode();
	}
}

/* What a vehicle may do after a trip: so many later ones, at random. */
void make_arcs(Problem &problem, long choices, uint64_t *state)
{
	SmartDigraph::Node depot = problem.graph.addNode();
	size_t count = problem.trips.size();

	for (const Trip &trip : problem.trips) {
		problem.arc(trip.before, trip.after, 0, 1);
		problem.arc(depot, trip.before, VEHICLE_COST + trip.from);
		problem.arc(trip.after, depot, trip.to);
		for (long choice = 0; choice < choices; choice++) {
			const Trip &then =
				problem.trips[works_random(state, count)];
			long way = labs(trip.to - then.from);

			if (then.begin >= trip.end + way / 50)
				problem.arc(trip.after, then.before,
					    way + then.begin - trip.end);
		}
	}
}

void check(const Problem &problem, const Simplex &simplex, bool planted)
{
	const SmartDigraph &graph = problem.graph;
	SmartDigraph::NodeMap<long> balance(graph, 0);
	long total = 0, vehicles = 0;

	for (SmartDigraph::ArcIt arc(graph); arc != lemon::INVALID; ++arc) {
		SmartDigraph::Node from = graph.source(arc);
		SmartDigraph::Node to = graph.target(arc);
		long flow = simplex.flow(arc);
		long price = problem.cost[arc] + simplex.potential(from) -
			     simplex.potential(to);

		if (planted && graph.id(arc) == 0)
			flow = 0;
		if (flow < problem.lower[arc] || flow > problem.upper[arc])
			check_fail("arc %d has %ld", graph.id(arc), flow);
		if ((price > 0 && flow > problem.lower[arc]) ||
		    (price < 0 && flow < problem.upper[arc]))
			check_fail("arc %d has %ld at a price of %ld",
				   graph.id(arc), flow, price);
		balance[from] -= flow;
		balance[to] += flow;
		total += flow * problem.cost[arc];
		vehicles += flow * (problem.cost[arc] >= VEHICLE_COST);
	}
	for (SmartDigraph::NodeIt node(graph); node != lemon::INVALID; ++node)
		if (balance[node])
			check_fail("node %d is off balance by %ld",
				   graph.id(node), balance[node]);
	if (total != simplex.totalCost<long>())
		check_fail("the flow costs %ld", total);
	check_ok("trips=%zu arcs=%d vehicles=%ld cost=%ld",
		 problem.trips.size(), lemon::countArcs(graph), vehicles,
		 total);
}

} // namespace

int main(int argc, char **argv)
{
	static const char *const extra[] = { "trips", "choices", "planted",
					     nullptr };
	uint64_t state = 1;
	Problem problem;

	check_begin(argc, argv, extra);
	make_trips(problem, static_cast<long>(check_number("trips", 300)),
		   &state);
	make_arcs(problem, static_cast<long>(check_number("choices", 20)),
		  &state);

	Simplex simplex(problem.graph);

	simplex.lowerMap(problem.lower)
		.upperMap(problem.upper)
		.costMap(problem.cost);
	if (simplex.run() != Simplex::OPTIMAL)
		check_fail("no flow of least cost");
	check(problem, simplex, check_number("planted", 0) != 0);
	return 0;
}
