"""Obligations of callbacks: deliveries, answers of receivers one after another, and what injected faults change."""
