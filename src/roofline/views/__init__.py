"""Text, pictures, reports and files made from results. No arithmetic beyond units."""
