"""What an edited document may ask for or answer: compared with what the code reads and sends."""
