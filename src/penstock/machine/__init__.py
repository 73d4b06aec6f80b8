"""What penstock finds on this machine: Java, processes, the user's folders, the files of installed packages."""
