// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * dealII's class: Poisson's equation by quadratic finite elements of GetFEM, on
 * a mesh that is refined where such functions leave most out.
 *
 * The solution is known: a hill in one corner. Each round solves, and divides
 * the worst elements. Checked: the error falls from round to round.
 */
#include "works.h"

#include <getfem/getfem_assembling.h>
#include <getfem/getfem_mesh_fem.h>
#include <getfem/getfem_mesh_im.h>
#include <getfem/getfem_regular_meshes.h>
#include <gmm/gmm.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace
{

using bgeot::base_node;
using Numbers = std::vector<double>;
using Rows = gmm::row_matrix<gmm::rsvector<double> >;

constexpr double STEEP = 60;
constexpr double CORNER = 0.75;
constexpr double TOLERANCE = 1e-9;
constexpr double REFINED_SHARE = 0.4;
constexpr bgeot::dim_type DIMENSIONS = 2;

double exact(const base_node &at)
{
	double x = at[0] - CORNER, y = at[1] - CORNER;

	return std::exp(-STEEP * (x * x + y * y));
}

/* -Laplace of it. */
double load(const base_node &at)
{
	double x = at[0] - CORNER, y = at[1] - CORNER, square = x * x + y * y;

	return 4 * STEEP * (1 - STEEP * square) * exact(at);
}

struct Space {
	explicit Space(const getfem::mesh &mesh)
		: functions(mesh)
		, rule(mesh)
	{
		functions.set_finite_element(
			getfem::fem_descriptor("FEM_PK(2,2)"));
		rule.set_integration_method(
			getfem::int_method_descriptor("IM_TRIANGLE(6)"));
	}

	getfem::mesh_fem functions;
	getfem::mesh_im rule;
};

/* Known values at the edge of the square: those rows become the identity. */
void fix_edge(const Space &space, Rows &matrix, Numbers &right)
{
	getfem::mesh_region edge;

	getfem::outer_faces_of_mesh(space.functions.linked_mesh(), edge);

	dal::bit_vector known = space.functions.basic_dof_on_region(edge);

	for (dal::bv_visitor dof(known); !dof.finished(); ++dof) {
		gmm::clear(gmm::mat_row(matrix, dof));
		matrix(dof, dof) = 1;
		right[dof] = exact(space.functions.point_of_basic_dof(dof));
	}
}

Numbers solve(const Space &space)
{
	size_t count = space.functions.nb_dof();
	Numbers ones(count, 1), loads(count), right(count), found(count);
	Rows matrix(count, count);

	for (size_t dof = 0; dof < count; dof++)
		loads[dof] = load(space.functions.point_of_basic_dof(dof));
	getfem::asm_stiffness_matrix_for_laplacian(
		matrix, space.rule, space.functions, space.functions, ones);
	getfem::asm_source_term(right, space.rule, space.functions,
				space.functions, loads);
	fix_edge(space, matrix, right);

	gmm::csr_matrix<double> packed;
	gmm::iteration iteration(TOLERANCE);

	gmm::copy(matrix, packed);
	gmm::ilu_precond<gmm::csr_matrix<double> > nearly(packed);
	gmm::bicgstab(packed, found, right, nearly, iteration);
	if (!iteration.converged())
		check_fail("%zu unknowns were not found", count);
	return found;
}

double error_at(const Space &space, const Numbers &found, size_t dof)
{
	return std::fabs(found[dof] -
			 exact(space.functions.point_of_basic_dof(dof)));
}

double largest_error(const Space &space, const Numbers &found)
{
	double most = 0;

	for (size_t dof = 0; dof < found.size(); dof++)
		most = std::max(most, error_at(space, found, dof));
	return most;
}

/* What an element's functions of second degree leave out: how much the load
 * changes in it, by its size.
 */
double left_out(const Space &space, size_t element)
{
	const getfem::mesh &mesh = space.functions.linked_mesh();
	double least = HUGE_VAL, most = -HUGE_VAL;

	for (size_t dof : space.functions.ind_basic_dof_of_element(element)) {
		double here = load(space.functions.point_of_basic_dof(dof));

		least = std::min(least, here);
		most = std::max(most, here);
	}
	return (most - least) * mesh.convex_area_estimate(element, 2);
}

void refine(getfem::mesh &mesh, const Space &space)
{
	Numbers all;
	dal::bit_vector elements = mesh.convex_index(), chosen;

	for (dal::bv_visitor it(elements); !it.finished(); ++it)
		all.push_back(left_out(space, it));

	auto limit = all.begin() + static_cast<std::ptrdiff_t>(
					   static_cast<double>(all.size()) *
					   (1 - REFINED_SHARE));

	std::nth_element(all.begin(), limit, all.end());
	for (dal::bv_visitor it(elements); !it.finished(); ++it)
		if (left_out(space, it) >= *limit)
			chosen.add(it);
	mesh.Bank_refine(chosen);
}

} // namespace

int main(int argc, char **argv)
{
	static const char *const extra[] = { "side", "rounds", "planted",
					     nullptr };
	getfem::mesh mesh;
	double before = 1, error = 1;
	size_t unknowns = 0;

	check_begin(argc, argv, extra);

	std::vector<size_t> sides(DIMENSIONS, check_number("side", 8));
	uint64_t rounds = check_number("rounds", 3);

	getfem::regular_unit_mesh(
		mesh, sides, bgeot::simplex_geotrans(DIMENSIONS, 1), false);
	for (uint64_t round = 0; round < rounds; round++) {
		Space space(mesh);
		Numbers found = solve(space);

		if (check_number("planted", 0))
			found[found.size() / 2] += 1;
		before = error;
		error = largest_error(space, found);
		unknowns = found.size();
		if (!(error < before))
			check_fail("%zu unknowns, error %g", unknowns, error);
		if (round + 1 < rounds)
			refine(mesh, space);
	}
	return check_ok("unknowns=%zu error=%g", unknowns, error);
}
