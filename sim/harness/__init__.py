"""The test harness: engines that run a charge service and compare its behaviour with a reference model."""
