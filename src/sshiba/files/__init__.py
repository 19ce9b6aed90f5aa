"""Files: tables from and to files, the model file, MOFA's file; nothing is ever half written."""
